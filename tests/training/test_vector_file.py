"""Files of word vectors in fastText's text format."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.training.vector_file import check_vector_file, read_vectors


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("fasttext.vec", "2 3\ncat 1 0.5 -2e-1 \ndog 0 3 4 \n"),
        ("glove.txt", "cat 1 0.5 -2e-1\ndog 0 3 4\n"),
        ("glove.txt", "cat 1 0.5 -2e-1\ndog 0 3 4"),
        ("compressed.vec.gz", "2 3\ncat 1 0.5 -2e-1 \ndog 0 3 4 \n"),
        ("windows.vec", "\ufeff2 3\r\ncat 1 0.5 -2e-1\r\ndog 0 3 4\r\n"),
    ],
)
def test_vectors_are_read_with_and_without_a_header(write, name, content):
    path = write(name, content)
    check_vector_file(path)
    vectors = read_vectors(path, ["dog", "cow", "cat", "1␟cat"])
    cat = [1, 0.5, -0.2]
    assert vectors == pytest.approx(np.array([[0, 3, 4], [0, 0, 0], cat, cat]), abs=1e-7)
    assert vectors.dtype == np.float32


def test_only_the_plain_space_separates(write):
    # A no-break space and a line separator of Unicode can be part of a word.
    path = write("words.vec", "a\u00a0b 1 2\nc\u2028d 3 4\n10 5 6\n")
    assert read_vectors(path, ["10", "c\u2028d"]).tolist() == [[5, 6], [3, 4]]


def test_a_number_can_be_a_word(write):
    # Two whole numbers in the first line are a header; the second line has two numbers, too.
    assert read_vectors(write("one.vec", "2 1\n40 3\nox 4\n"), ["ox", "40"]).tolist() == [[4], [3]]


SECOND_LINE = [
    ("dog 1", "has 1 values after the word 'dog'; expected a word without spaces and 2 values"),
    ("dog", "has 0 values after the word 'dog'"),
    ("", "has 0 values after the word ''"),
    (" 1 2", "has 2 values after the word ''"),
    ("hot dog 1 2", "has 3 values after the word 'hot'; expected a word without spaces"),
    ("dog 1  2", "has 3 values after the word 'dog'"),
    ("dog\t1\t2", r"has 0 values after the word 'dog\t1\t2'"),
    ("dog 1 2x", "has '2x' after the word 'dog'; expected 2 finite numbers"),
    ("dog 1 2.3.4", "has '2.3.4' after the word 'dog'; expected 2 finite numbers"),
    ("dog nan 2", "has 'nan' after the word 'dog'; expected 2 finite numbers"),
    ("dog 1 -inf", "has '-inf' after the word 'dog'"),
    ("dog 1 1e39", "has '1e39' after the word 'dog'"),
    ("dog 1 1_0", "has '1_0' after the word 'dog'"),
    ("cat 1 2", "has the word 'cat' of line 1 again; expected each word once"),
]


@pytest.mark.parametrize(("line", "message"), SECOND_LINE)
def test_an_error_of_a_line_names_the_line(write, line, message):
    path = write("words.vec", f"cat 1 2\n{line}\ncow 3 4\n")
    with pytest.raises(UserError) as error:
        read_vectors(path, ["cat", "dog"])
    assert str(error.value).startswith(f"{path}:2 {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", ["dog 1", "hot dog 1 2", "dog 1 nan", "dog 1 two"])
def test_lines_of_other_words_are_checked_too(write, line):
    path = write("words.vec", f"2 2\ncat 1 2\n{line}\n")
    with pytest.raises(UserError, match=r"words\.vec:3 has "):
        read_vectors(path, ["cat"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", " has no vectors; expected lines of a word and its values"),
        ("0 3\n", ":1 is the header '0 3'; expected two numbers above 0"),
        ("2 3\ncat 1 2\n", ":2 has 2 values after the word 'cat'; expected a word without spaces "
         "and 3 values"),
        ("cat\n", ":1 has 0 values after the word 'cat'; expected a word without spaces and its"),
        ("cat x y\n", ":1 has 'x' after the word 'cat'"),
        (b"\xba\x16\x4f\x2f\x0c\0\0\0d\0\0\0\n", ":1 has 0 values"),
        (b"PK\x03\x04", " holds ZIP or Excel data"),
        ("a" * 2_000_000, ":1 is longer than 1,048,577 bytes; expected a word and its values."),
    ],
)  # fmt: skip
def test_a_file_of_something_else_is_refused_at_once(write, content, message):
    path = write("words.vec", content)
    for read in (check_vector_file, lambda path: read_vectors(path, ["cat"])):
        with pytest.raises(UserError) as error:
            read(path)
        assert str(error.value).startswith(f"{path}{message}")


def test_a_file_with_fewer_or_more_vectors_than_its_header_says_is_refused(write):
    for lines in ("cat 1 2\n", "cat 1 2\ndog 1 2\ncow 1 2\n"):
        path = write("words.vec", "2 2\n" + lines)
        with pytest.raises(UserError, match=r"words\.vec has [13] vectors, .* is the file comp"):
            read_vectors(path, ["cat"])


def test_a_truncated_compressed_file_is_refused(write):
    path = write("words.vec.gz", "cat 1 2\n" * 1000)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"words\.vec\.gz is not a complete gzip file"):
        read_vectors(path, ["dog"])


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"none\.vec cannot be read: No such file"):
        read_vectors(tmp_path / "none.vec", ["cat"])


def test_a_file_in_another_language_is_refused(write):
    path = write("words.vec", "chat 1 2\n")
    with pytest.raises(UserError, match="has none of the 2 words, the first of which is 'cat'"):
        read_vectors(path, ["cat", "dog"])
    assert read_vectors(path, []).shape == (0, 2)


def test_by_the_text_rules_a_word_takes_the_vector_of_another_spelling(write):
    path = write("words.vec", "Café 1\nCAFE 2\nÉcran 3\nécran 4\necran 5\nThe-Dog 6\n")
    words = ["cafe", "ecran", "dog", "thedog"]
    # The first spelling counts, unless the word itself is in the file.
    assert read_vectors(path, words, FOLDED).ravel().tolist() == [1, 5, 0, 0]
    assert read_vectors(path, words).ravel().tolist() == [0, 5, 0, 0]
    accents = TextRules(keep_accents=True)
    assert read_vectors(path, ["café", "cafe"], accents).ravel().tolist() == [1, 2]


def test_vectors_of_other_words_are_not_kept_in_memory(write):
    line = "0.123 " * 300
    path = write("words.vec", "".join(f"w{number} {line}\n" for number in range(10_000)))
    tracemalloc.start()
    read_vectors(path, ["w7", "w9999"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 18e6
    assert peak < 9e6  # some blocks of 1 MB


@given(
    arrays(
        np.float32, (4, 3), elements=st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)
    ),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_written_vectors_are_read_back(tmp_path_factory, vectors, wanted):
    path = tmp_path_factory.mktemp("vectors") / "words.vec"
    lines = [
        f"w{row} {' '.join(map(repr, vector.tolist()))}\n" for row, vector in enumerate(vectors)
    ]
    path.write_text("4 3\n" + "".join(lines))
    expected = np.vstack([vectors, np.zeros((2, 3), np.float32)])
    result = read_vectors(path, ["w0", *(f"w{row}" for row in wanted)])
    np.testing.assert_array_equal(result, expected[[0, *wanted]])
