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
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import Lines, reading
from dssm_tf.text.fields import split_mark
from dssm_tf.text.rules import Rules

_HEADER = re.compile(rb"(\d+) (\d+)")
_CHARACTERS_OF_NUMBERS = b"0123456789+-.eE "
_LARGEST = float(np.finfo(np.float32).max)
_MAX_QUOTED = 40  # bytes of a word or number in a message


class _Line(NamedTuple):
    """One word and its numbers, still as text.

    Args:
        line_number: from 1.
        word: the word in the file's spelling.
        numbers: its numbers, separated by single spaces.
    """

    line_number: int
    word: bytes
    numbers: bytes


def check_vector_file(path: Path) -> None:
    """Reads the first vector of a file.

    Raises:
        UserError: the file cannot be read, or does not begin with word vectors.
    """
    lines = _lines(path)
    _parse(path, next(lines))
    lines.close()


def read_vectors(
    path: Path, words: Sequence[str], rules: Rules | None = None
) -> NDArray[np.float32]:
    """Reads the vectors of some words; only these are in memory.

    The first line may be a header: the number of vectors and the number of columns. Every other
    line is a word and its numbers, separated by single spaces. Gzip files are decompressed.

    Args:
        path: the file.
        words: the words to look for; the mark of a field is ignored (see `text.fields`).
        rules: if given, a word that the file lacks takes the vector of the first word of the file
            that becomes the same word by these rules: `cafe` that of `Café`.

    Returns:
        `(words, columns)`, zero rows for words that the file does not have.

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
            vectors = np.zeros((len(words), line.numbers.count(b" ") + 1), np.float32)
        word = line.word
        if word in rows_of_word:
            if (first := exact_lines.setdefault(word, line.line_number)) != line.line_number:
                raise UserError(
                    f"{path}:{line.line_number} has the word {_quote(word)} of line {first} again; "
                    "expected each word once. Delete one of the lines."
                )
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
    """The lines of a file; checks their characters and that all have equally many numbers."""
    columns = expected_count = header = None
    count = 0
    for number, line in _raw_lines(path):
        if number == 1 and (match := _HEADER.fullmatch(line)):
            header = line.decode()
            expected_count, columns = map(int, match.groups())
            if not expected_count or not columns:
                raise UserError(f"{path}:1 is the header {header!r}; expected two numbers above 0.")
            continue
        word, _, numbers = line.partition(b" ")
        fields = numbers.count(b" ") + 1 if numbers else 0
        columns = columns or fields
        if not word or not numbers or fields != columns:
            raise UserError(
                f"{path}:{number} has {fields} fields after the word {_quote(word)}; expected a "
                f"word without spaces and {columns or 'its'} numbers, separated by single spaces. "
                "Correct or delete the line."
            )
        if numbers.translate(None, _CHARACTERS_OF_NUMBERS):
            _parse(path, _Line(number, word, numbers))
        count += 1
        yield _Line(number, word, numbers)
    if expected_count is not None and count != expected_count:
        raise UserError(
            f"{path} has {count:,} vectors, but its first line is {header!r}; is the file "
            "complete? If so, correct or delete that line."
        )
    if not count:
        raise UserError(f"{path} has no vectors; expected lines of a word and its numbers.")


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each line, without spaces at its end."""
    with reading(str(path)), path.open("rb") as file:
        for block in Lines(file, str(path), Layout()):
            if block.too_long:
                raise UserError(
                    f"{path}:{block.first} is longer than {len(block.data):,} bytes; expected a "
                    "word and its numbers. Is this fastText's text format (.vec, not .bin)?"
                )
            for index, line in enumerate(block.data.split(b"\n")[:-1]):
                yield block.first + index, line.rstrip(b" \r")


def _parse(path: Path, line: _Line) -> NDArray[np.float32]:
    """The numbers of a line, `(columns,)`; raises UserError if one is not a finite number."""
    fields = line.numbers.split(b" ")
    if not line.numbers.translate(None, _CHARACTERS_OF_NUMBERS):
        with suppress(ValueError):
            vector = np.array([*map(float, fields)])
            if (np.abs(vector) <= _LARGEST).all():
                return vector.astype(np.float32)
    bad = next(field for field in fields if not _is_number(field))
    raise UserError(
        f"{path}:{line.line_number} has {_quote(bad)} after the word {_quote(line.word)}; expected "
        f"{len(fields)} finite numbers. Correct or delete the line."
    )


def _is_number(field: bytes) -> bool:
    """Whether a field is a finite float32 in decimal notation."""
    try:
        # float() also reads nan, inf and 1_000.
        return not field.translate(None, _CHARACTERS_OF_NUMBERS) and abs(float(field)) <= _LARGEST
    except ValueError:
        return False


def _normal_form(word: bytes, rules: Rules) -> bytes:
    """The word by the text rules; empty if the rules make no word of it, or several."""
    words = rules.words(word.decode("utf-8", "replace"))
    return words[0].encode() if len(words) == 1 else b""


def _quote(text: bytes) -> str:
    """Bytes for a message."""
    return repr(text[:_MAX_QUOTED].decode("utf-8", "replace"))
