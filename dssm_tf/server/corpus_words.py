"""The words of a corpus: whether one stands in it, and which are spelled like it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED

ALIKE = 0.5
"""The least likeness of two words that one may be taken for the other."""


class Suggestion(NamedTuple):
    """A word of the corpus, and how many titles hold it."""

    word: str
    titles: int


class CorpusWords:
    """The words of titles, found again by their letter trigrams.

    Args:
        titles: of the corpus.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = Counter(word for title in titles for word in set(self.split(title)))
        self._holding: dict[str, list[str]] = defaultdict(list)
        for word in self._titles:
            for ngram in set(letter_ngrams(word)):
                self._holding[ngram].append(word)

    def split(self, text: str) -> list[str]:
        """The words of a text, in order."""
        return FOLDED.words(text)

    def __contains__(self, word: str) -> bool:
        return word in self._titles

    def nearest(self, word: str, most: int = 3) -> list[Suggestion]:
        """The words that are `ALIKE` a word, most letters in common order first."""
        ngrams = set(letter_ngrams(word))
        candidates = {one for ngram in ngrams for one in self._holding.get(ngram, ())}
        found = [
            (-SequenceMatcher(None, word, one).ratio(), -self._titles[one], one)
            for one in candidates
            if likeness(word, one) >= ALIKE
        ]
        return [Suggestion(one, -titles) for _, titles, one in sorted(found)[:most]]


@lru_cache(maxsize=1 << 16)
def likeness(one: str, other: str) -> float:
    """The share of two words' letter trigrams that both have, counted as often as they have them.

    `#canion#` and `#canyon#` share 3 of 6 each: 2 * 3 / (6 + 6).

    >>> likeness("canion", "canyon"), likeness("fox", "fox"), likeness("fox", "owl")
    (0.5, 1.0, 0.0)

    Reference: Dice 1945.
    """
    mine, theirs = Counter(letter_ngrams(one)), Counter(letter_ngrams(other))
    return 2 * (mine & theirs).total() / (mine.total() + theirs.total())
