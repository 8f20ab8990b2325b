"""Word probabilities of a collection of titles, and Dirichlet smoothing with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.terms import Terms
from dssm_tf.evaluation.title_cache import TitleCache


class TitleCounts(NamedTuple):
    """What smoothing knows of titles.

    Attributes:
        words: counts of the known words, `(words, titles)`.
        lengths: words of each title, known or not, `(titles,)`.
    """

    words: sparse.csr_matrix
    lengths: NDArray[np.float64]


class Collection:
    """The unigram model of a collection, `p(w|C) = count of w / count of all words`.

    Args:
        terms: the known words.
        probabilities: `p(w|C)`, aligned with `terms.words`; 0 for words that
            are known, from queries say, but that no title of the collection holds.
    """

    def __init__(self, terms: Terms, probabilities: NDArray[np.float64]) -> None:
        self.terms = terms
        self.probabilities = probabilities
        self._titles: TitleCache[TitleCounts] = TitleCache()

    @classmethod
    def of(cls, terms: Terms, titles: Sequence[str]) -> Collection:
        """The collection that the titles make; each counts as often as it stands there."""
        counts = np.asarray(terms.count(titles).sum(axis=0)).ravel()
        return cls(terms, counts / max(1.0, counts.sum()))

    def titles(self, titles: Sequence[str]) -> TitleCounts:
        """Counts the words of titles, of the collection or not."""
        return self._titles.get(titles, self._count)

    def smoothed(
        self, titles: TitleCounts, words: NDArray[np.int64], columns: slice, mu: float
    ) -> NDArray[np.float64]:
        """`p(w|D) = (count of w in D + mu p(w|C)) / (words of D + mu)`: `(words, titles)`.

        Args:
            titles: what `titles` gave.
            words: places in `terms.words`.
            columns: which titles.
            mu: words of the collection that every title is padded with, above 0.

        Reference: Zhai and Lafferty 2001.
        """
        counts: NDArray[np.float64] = titles.words[words][:, columns].toarray()
        prior = mu * self.probabilities[words]
        smoothed: NDArray[np.float64] = (counts + prior[:, None]) / (titles.lengths[columns] + mu)
        return smoothed

    def _count(self, titles: tuple[str, ...]) -> TitleCounts:
        counts = self.terms.count(titles)
        lengths = np.asarray(counts.sum(axis=1)).ravel() + self.terms.unknown(titles)
        return TitleCounts(counts.T.tocsr(), lengths)


def distinct_titles(titles: Sequence[str], clicked: Sequence[str]) -> list[str]:
    """The titles of a corpus and the clicked ones that it lacks, each once."""
    return list(dict.fromkeys([*titles, *clicked]))
