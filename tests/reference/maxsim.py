"""The score maxsim, one query, one title and one word at a time, in float64.

Late interaction (Khattab and Zaharia 2020) of hashed words (Huang et al. 2013), on both sides, with
pairs of neighboring words as exact terms (Metzler and Croft 2005), and the cosine of sums of second
vectors of words. Texts are lists of words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Text = Sequence[str]


@dataclass
class MaxSim:
    """The arrays of a model, the ids of its words, and document frequencies.

    Args:
        kernel: `(1 + ids, dimension)`, a row for each id.
        importance: `(1 + ids, 2)`, for each id its importance in queries and in titles.
        side_weights: the weights of the query side and of the title side.
        pair_bias: the importance of all pairs in queries and in titles.
        threshold: cosines up to this value are similarity 0.
        ids: for each word its ids, with repetition.
        titles: number of titles.
        words: for each word the number of titles with it.
        pairs: for each pair `"w1 w2"` of at least two titles the number of titles with it.
        text_kernel: `(1 + ids, dimension)`, a second row for each id; not read if `text_cosine` is
            0.
        text_importance: `(1 + ids, 2)`, like `importance`, for the second vectors.
        text_cosine: the factor of the cosine of the sums of second vectors.
    """

    kernel: Any
    importance: Any
    side_weights: Any
    pair_bias: Any
    threshold: float
    ids: Mapping[str, Sequence[int]]
    titles: int
    words: Mapping[str, int]
    pairs: Mapping[str, int]
    text_kernel: Any = None
    text_importance: Any = None
    text_cosine: float = 0.0

    def vector(self, word: str) -> Array:
        """The sum of the rows of a word, of length 1; zero for a word without ids."""
        return unit(self._sum(self.kernel, word))

    def _sum(self, kernel: Any, word: str) -> Array:
        total = np.zeros(np.shape(kernel)[1])
        for row in self.ids[word]:
            total = total + np.asarray(kernel[row], np.float64)
        return total

    def similarity(self, first: str, second: str) -> float:
        cosine = float(self.vector(first) @ self.vector(second))
        return max(0.0, cosine - self.threshold) / (1 - self.threshold)

    def word_weight(self, word: str, side: int) -> float:
        """The weight a(w) of a query word, side 0, or b(w) of a title word, side 1."""
        return self._weight(self.importance, word, side)

    def _weight(self, importance: Any, word: str, side: int) -> float:
        rows = self.ids[word]
        mean = sum(float(importance[row][side]) for row in rows) / len(rows) if rows else 0.0
        idf = math.log(self.titles / max(self.words.get(word, 0), 0.5))
        return softplus(idf / 5 + mean)

    def pair_weight(self, pair: str, side: int) -> float:
        idf = math.log(self.titles / self.pairs[pair])
        return softplus(idf / 5 + float(self.pair_bias[side]))

    def pairs_of(self, text: Text) -> set[str]:
        return {f"{a} {b}" for a, b in pairwise(text)} & {*self.pairs}

    def score(self, query: Text, title: Text) -> float:
        """The score of a title for a query, without the prior."""
        if not query or not title:
            return 0.0
        weights = [abs(float(weight)) for weight in self.side_weights]
        sides = weights[0] * self._side(query, title, 0) + weights[1] * self._side(title, query, 1)
        return sides + self.cosine_part(query, title)

    def cosine_part(self, query: Text, title: Text) -> float:
        """The part of the score that the cosine of the text vectors adds."""
        if not self.text_cosine:
            return 0.0
        return self.text_cosine * float(self.text_vector(query, 0) @ self.text_vector(title, 1))

    def text_vector(self, text: Text, side: int) -> Array:
        """The weighted sum of the second vectors of the distinct words, of length 1."""
        total = np.zeros(np.shape(self.text_kernel)[1])
        for word in sorted({*text}):
            weight = self._weight(self.text_importance, word, side)
            total = total + weight * unit(self._sum(self.text_kernel, word))
        return unit(total)

    def _side(self, text: Text, other: Text, side: int) -> float:
        """How much of the weight of a text is matched by the other text, from 0 to about 1."""
        matched = total = 0.0
        for word in {*text}:
            weight = self.word_weight(word, side)
            matched += weight * max(self.similarity(word, candidate) for candidate in {*other})
            total += weight
        for pair in self.pairs_of(text):
            weight = self.pair_weight(pair, side)
            matched += weight if pair in self.pairs_of(other) else 0.0
            total += weight
        return matched / total


def unit(vector: Array) -> Array:
    """A vector scaled to length 1; a zero vector stays zero."""
    length = math.sqrt(float(vector @ vector))
    return vector / length if length > 0 else vector


def softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return math.log1p(math.exp(x))
