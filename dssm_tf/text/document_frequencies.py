"""Document frequencies of words and word pairs: in how many titles each of them occurs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.json_files import read_json

_MIN_TITLES = 2
_MAX_TITLES = 1 << 53  # larger whole numbers are not exact as floats
_UNKNOWN_WORD = 0.5


@dataclass(frozen=True)
class DocumentFrequencies:
    """Numbers of distinct titles that contain a word or a word pair.

    A pair is two neighboring words, joined by a space. No word contains a space, so a pair never
    equals a word. The *known pairs* are those that occur in at least two titles.

    Args:
        titles: number of distinct titles.
        words: for each word, the number of titles that contain it.
        pairs: for each known pair, the number of titles that contain it.
    """

    titles: int
    words: dict[str, int]
    pairs: dict[str, int]

    @classmethod
    def from_titles(cls, titles: Iterable[Sequence[str]]) -> DocumentFrequencies:
        """Counts the words and pairs of titles.

        Args:
            titles: the words of each distinct title, in order.

        Raises:
            ValueError: there are no titles.

        >>> frequencies = DocumentFrequencies.from_titles([["red", "shoe"], ["red", "shoe", "box"]])
        >>> frequencies.words, frequencies.pairs
        ({'box': 1, 'red': 2, 'shoe': 2}, {'red shoe': 2})
        """
        count = 0
        words: Counter[str] = Counter()
        pairs: Counter[str] = Counter()
        for title in titles:
            count += 1
            words.update({*title})
            pairs.update({*map(" ".join, pairwise(title))})
        if not count:
            raise ValueError("Expected at least one title to count words in; received none.")
        known_pairs = {pair: number for pair, number in pairs.items() if number >= _MIN_TITLES}
        return cls(count, dict(sorted(words.items())), dict(sorted(known_pairs.items())))

    def word_idf(self, word: str) -> float:
        """The inverse document frequency of a word, `ln(titles / df)`.

        A word without titles counts as half a title, so it is rarer than any known word.

        >>> DocumentFrequencies(8, {"red": 2}, {}).word_idf("red") == log(4)
        True
        """
        return log(self.titles / self.words.get(word, _UNKNOWN_WORD))

    def pair_idf(self, pair: str) -> float:
        """The inverse document frequency of a known pair, `ln(titles / df)`.

        Raises:
            KeyError: the pair is unknown.
        """
        return log(self.titles / self.pairs[pair])

    def pairs_of(self, words: Sequence[str]) -> list[str]:
        """The distinct known pairs of a text, in the order in which they first occur.

        Args:
            words: the words of the text, in order.

        >>> frequencies = DocumentFrequencies(9, {"red": 3, "shoe": 4}, {"red shoe": 2})
        >>> frequencies.pairs_of(["red", "shoe", "red", "shoe"])
        ['red shoe']
        """
        pairs = dict.fromkeys(map(" ".join, pairwise(words)))
        return [pair for pair in pairs if pair in self.pairs]

    def save(self, path: Path) -> None:
        """Writes the numbers as JSON, one word or pair per line."""
        content = {"titles": self.titles, "words": self.words, "pairs": self.pairs}
        with atomic_write(path) as file:
            json.dump(content, file, indent=0, sort_keys=True)
            file.write("\n")

    @classmethod
    def load(cls, path: Path) -> DocumentFrequencies:
        """Reads a file that `save` wrote.

        Raises:
            UserError: the file is missing, or a number is impossible.
        """
        hint = "Copy the directory again, or write it again."
        content = read_json(Path(path), hint)
        if problem := _problem(content):
            raise UserError(f"{path}: {problem}. {hint}")
        return cls(**content)


def _problem(content: Any) -> str | None:
    """Describes the problem of a file's content; None if it is valid."""
    names = ["pairs", "titles", "words"]
    if not isinstance(content, dict) or sorted(content) != names:
        return f"expected an object with {', '.join(names)}, received {_start(content)}"
    titles, words, pairs = content["titles"], content["words"], content["pairs"]
    if type(titles) is not int or not 1 <= titles <= _MAX_TITLES:
        return f"titles is {_start(titles)}; expected a number of titles, 1 to {_MAX_TITLES}"
    for name, counts in (("words", words), ("pairs", pairs)):
        if not isinstance(counts, dict):
            return f"{name} is {_start(counts)}; expected an object of numbers of titles"
    for word, number in words.items():
        if type(number) is not int or not 1 <= number <= titles:
            return (
                f"the word {_start(word)} is in {_start(number)} titles; expected "
                f"{_range(1, titles)}"
            )
        if not word or " " in word:
            return f"the word {_start(word)} is empty or has a space"
    for pair, number in pairs.items():
        rarer_count = min((words.get(word, 0) for word in pair.split(" ")), default=0)
        if pair.count(" ") != 1 or not rarer_count:
            return f"the pair {_start(pair)} is not two of the words, joined by a space"
        if rarer_count < _MIN_TITLES:
            return (
                f"the pair {_start(pair)} has a word that is in {rarer_count} title; expected only "
                f"pairs that are in at least {_MIN_TITLES} titles"
            )
        if type(number) is not int or not _MIN_TITLES <= number <= rarer_count:
            return (
                f"the pair {_start(pair)} is in {_start(number)} titles; expected "
                f"{_range(_MIN_TITLES, rarer_count)}, because its rarer word is in {rarer_count}"
            )
    return None


def _range(low: int, high: int) -> str:
    """The whole numbers from `low` to `high`, for an error message."""
    return f"{low}" if low == high else f"{low} to {high}"


def _start(value: object) -> str:
    """The beginning of a value, for an error message."""
    return f"{value!r:.60}"
