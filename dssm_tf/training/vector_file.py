"""Word vectors in fastText's text format. Its header may be missing, as in GloVe's files."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import refuse_special_file
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import Lines, reading
from dssm_tf.text.fields import split_mark
from dssm_tf.text.rules import TextRules

_HEADER = re.compile(rb"(\d+) (\d+)")
_CHARACTERS_OF_VALUES = b"0123456789+-.eE "
_LARGEST = float(np.finfo(np.float32).max)
_MAX_QUOTED = 40  # bytes of a word or value in a message


class _Line(NamedTuple):
    """One word and the values of its vector, still as text.

    Args:
        line_number: from 1.
        word: the word in the file's spelling.
        values: the values of its vector, separated by single spaces.
    """

    line_number: int
    word: bytes
    values: bytes


def check_vector_file(path: Path) -> None:
    """Reads the first vector of a file.

    Raises:
        UserError: the file cannot be read, or does not begin with word vectors.
    """
    lines = _lines(path)
    _parse(path, next(lines))
    lines.close()


def read_vectors(
    path: Path, words: Sequence[str], rules: TextRules | None = None
) -> NDArray[np.float32]:
    """Reads the vectors of some words; only these are in memory.

    The first line may be a header: the number of vectors and their length. Every other line is a
    word and the values of its vector, separated by single spaces. Gzip files are decompressed.

    Args:
        path: the file.
        words: the words to look for; the mark of a field is ignored (see `text.fields`).
        rules: if given, a word that the file lacks takes the vector of the first word of the file
            that becomes the same word by these rules: `cafe` that of `Café`.

    Returns:
        `(words, length of a vector)`, zero rows for words that the file does not have.

    Raises:
        UserError: the file cannot be read, a line is malformed, one of the words occurs twice, the
            number of vectors is not that of the header, or the file has none of the words.
    """
    rows_of_word: dict[bytes, list[int]] = {}
    for row, marked_word in enumerate(words):
        bare_word = split_mark(marked_word)[1].encode("utf-8", "replace")
        rows_of_word.setdefault(bare_word, []).append(row)
    vectors = np.zeros((len(words), 0), np.float32)
    exact_lines: dict[bytes, int] = {}  # for words that the file has, the number of their line
    respelled: set[bytes] = set()  # words that have the vector of another spelling
    for line in _lines(path):
        if not vectors.shape[1]:
            vectors = np.zeros((len(words), line.values.count(b" ") + 1), np.float32)
        word = line.word
        if word in rows_of_word:
            if word in exact_lines:
                raise UserError(
                    f"{path}:{line.line_number} has the word {_quote(word)} of line "
                    f"{exact_lines[word]} again; expected each word once. Delete one of the lines."
                )
            exact_lines[word] = line.line_number
        elif rules is not None and (normal := _normal_form(word, rules)) in rows_of_word:
            word = normal
            if word in exact_lines or word in respelled:
                continue
            respelled.add(word)
        else:
            continue
        vectors[rows_of_word[word]] = _parse(path, line)
    if words and not exact_lines and not respelled:
        raise UserError(
            f"{path} has none of the {len(words):,} words, the first of which is {words[0]!r}; "
            "expected word vectors in the language of the titles."
        )
    return vectors


def _lines(path: Path) -> Generator[_Line, None, None]:
    """The lines of a file; checks their characters and that all have equally many values."""
    length = expected_count = header = None
    count = 0
    for line_number, raw_line in _raw_lines(path):
        if line_number == 1 and (match := _HEADER.fullmatch(raw_line)):
            header = raw_line.decode()
            expected_count, length = map(int, match.groups())
            if not expected_count or not length:
                raise UserError(f"{path}:1 is the header {header!r}; expected two numbers above 0.")
            continue
        word, _, values = raw_line.partition(b" ")
        value_count = values.count(b" ") + 1 if values else 0
        length = length or value_count
        if not word or not values or value_count != length:
            raise UserError(
                f"{path}:{line_number} has {value_count} values after the word {_quote(word)}; "
                f"expected a word without spaces and {length or 'its'} values, separated by single "
                "spaces. Correct or delete the line."
            )
        line = _Line(line_number, word, values)
        if values.translate(None, _CHARACTERS_OF_VALUES):
            raise _invalid_value(path, line)
        count += 1
        yield line
    if expected_count is not None and count != expected_count:
        raise UserError(
            f"{path} has {count:,} vectors, but its first line is {header!r}; is the file "
            "complete? If so, correct or delete that line."
        )
    if not count:
        raise UserError(f"{path} has no vectors; expected lines of a word and its values.")


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each line, without spaces at its end."""
    refuse_special_file(path, "Write the vectors to a file first; .gz files are read directly.")
    with reading(str(path)), path.open("rb") as file:
        for block in Lines(file, str(path), Layout()):
            if block.too_long:
                raise UserError(
                    f"{path}:{block.first} is longer than {len(block.data):,} bytes; expected a "
                    "word and its values. Is this fastText's text format (.vec, not .bin)?"
                )
            for index, line in enumerate(block.data.split(b"\n")[:-1]):
                yield block.first + index, line.rstrip(b" \r")


def _parse(path: Path, line: _Line) -> NDArray[np.float32]:
    """The vector of a line of `_lines`; raises UserError if a value is not a finite number."""
    with suppress(ValueError):
        vector = np.array([*map(float, line.values.split(b" "))])
        if (np.abs(vector) <= _LARGEST).all():
            return vector.astype(np.float32)
    raise _invalid_value(path, line)


def _invalid_value(path: Path, line: _Line) -> UserError:
    """The error of a line with a value that is not a finite number."""
    values = line.values.split(b" ")
    invalid = next(value for value in values if not _is_finite_number(value))
    return UserError(
        f"{path}:{line.line_number} has {_quote(invalid)} after the word {_quote(line.word)}; "
        f"expected {len(values)} finite numbers. Correct or delete the line."
    )


def _is_finite_number(value: bytes) -> bool:
    """Whether a value is a finite float32 in decimal notation."""
    try:
        # float() also reads nan, inf and 1_000.
        return not value.translate(None, _CHARACTERS_OF_VALUES) and abs(float(value)) <= _LARGEST
    except ValueError:
        return False


def _normal_form(word: bytes, rules: TextRules) -> bytes:
    """The word by the text rules; empty if the rules make no word of it, or several."""
    words = rules.words(word.decode("utf-8", "replace"))
    return words[0].encode() if len(words) == 1 else b""


def _quote(text: bytes) -> str:
    """Bytes for a message."""
    return repr(text[:_MAX_QUOTED].decode("utf-8", "replace"))
