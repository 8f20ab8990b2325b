"""Okapi BM25, by the bm25s library."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import bm25s
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings, texts_of
from dssm_tf.baselines.terms import Terms
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self

# The library logs every index it builds, whatever the level of the root logger.
logging.getLogger("bm25s").setLevel(logging.WARNING)


class _Index(NamedTuple):
    """The weights of a list of titles.

    Attributes:
        unseen: words of the list that the corpus lacks.
        weights: `(corpus words + unseen words, titles)`.
    """

    unseen: Terms
    weights: sparse.csr_matrix


class BM25(Baseline):
    """Scores titles by the words they share with the query.

    With `f` the count of word `t` in the title, `l` the title's words, `L` the
    mean of `l`, `N` the titles of the corpus and `n` those that hold `t`:

        score = sum over words t of the query, repeats counted, of
                log(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b l / L))

    bm25s (its default, Lucene's variant) weights the corpus; titles outside it
    are weighted by the same formula with the corpus' `N`, `n` and `L`, a word
    the corpus lacks having `n = 0`. So a title scores the same in any list.

    Args:
        k1: how slowly repeats of a word in a title stop counting, at least 0.
        b: how much long titles are marked down, from 0 to 1.

    Reference: Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variants.
    """

    name = "bm25"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {
        "k1": (0.5, 0.9, 1.2, 1.5, 2.0),
        "b": (0.0, 0.25, 0.5, 0.75, 1.0),
    }

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        if not (k1 >= 0 and 0 <= b <= 1):
            raise ValueError(f"k1 is {k1} and b is {b}; expected k1 >= 0 and 0 <= b <= 1.")
        self.k1 = k1
        self.b = b

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Counts the words of the titles. Clicks are not used; equal titles count once each."""
        self._titles = list(titles)
        self._terms = Terms.of_corpus(self._titles, "BM25")
        tokens = [self._terms.split(title) for title in self._titles]
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64", backend="numpy")
        ids = [[self._terms.ids[word] for word in title] for title in tokens]
        index.index((ids, self._terms.ids), create_empty_token=False, show_progress=False)
        stored = index.scores
        # (words, titles): bm25s keeps its columns, the words, one after another.
        self._weights = sparse.csr_matrix(
            (stored["data"], stored["indices"], stored["indptr"]),
            shape=(len(self._terms), len(self._titles)),
        )
        self._indexed_with = (self.k1, self.b)
        self._counts: sparse.csr_matrix = self._terms.count(self._titles)
        self._holders = np.diff(self._weights.indptr)
        self._mean_length = float(np.mean([len(title) for title in tokens]))
        self._column = {title: column for column, title in enumerate(self._titles)}
        # Titles that differ in case or punctuation only have the same weights.
        self._column_of_words = {" ".join(title): column for column, title in enumerate(tokens)}
        self._indexes: TitleCache[_Index] = TitleCache()
        return self

    def with_parameters(self, **values: Any) -> Self:
        """The same word counts weighted with another `k1` and `b`, without a new index."""
        other = super().with_parameters(**values)
        other._reweigh()
        return other

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one sparse product."""
        index = self._indexes.get(titles, self._index)
        # Words stand in the same order in any batch and beside any titles, so
        # a query's words are added up in the same order, to the last bit.
        asked = sparse.hstack(
            [self._terms.count(queries), index.unseen.count(queries)], format="csr"
        )
        scores: NDArray[np.float64] = (asked @ index.weights).toarray()
        return scores

    def weights_of(self, titles: Sequence[str]) -> tuple[Terms, sparse.csr_matrix]:
        """The corpus' words and what each adds to the score of titles of the corpus.

        Returns:
            Words, and weights `(words, titles)`.
        """
        return self._terms, self._index(titles).weights[: len(self._terms)]

    def _learned(self) -> tuple[Settings, Arrays]:
        # The corpus, from which the index is made again.
        return {"indexed_with": self._indexed_with, "titles": self._titles}, {}

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        # As it was made, first by bm25s and then by the formula, which may differ in the last bit.
        wanted = (self.k1, self.b)
        made = type(self)(*settings["indexed_with"])
        self.k1, self.b = indexed_with = (made.k1, made.b)
        self.fit([], texts_of(settings, "titles"))
        if wanted != indexed_with:
            self.k1, self.b = wanted
            self._reweigh()

    def _reweigh(self) -> None:
        """Weights the corpus by the formula with the parameters as they are now."""
        lengths = np.asarray(self._counts.sum(axis=1)).ravel()
        self._weights = self._weigh(self._counts, lengths, self._holders).T.tocsr()
        self._indexes = TitleCache()

    def _index(self, titles: Sequence[str]) -> _Index:
        """Weights of titles: those of the corpus are known, the others are computed."""
        columns = np.array([self._find(title) for title in titles], dtype=np.int64)
        outside = [title for title, column in zip(titles, columns, strict=True) if column < 0]
        new = chain.from_iterable(map(self._terms.split, outside))
        unseen = Terms(w for w in new if w not in self._terms.ids)
        counts = sparse.hstack([self._terms.count(outside), unseen.count(outside)], format="csr")
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        holders = np.concatenate([self._holders, np.zeros(len(unseen))])
        inside = self._weights.T.tocsr()
        inside.resize(inside.shape[0], counts.shape[1])
        both = sparse.vstack([inside, self._weigh(counts, lengths, holders)], format="csr")
        columns[columns < 0] = inside.shape[0] + np.arange(len(outside))
        return _Index(unseen, both[columns].T.tocsr())

    def _find(self, title: str) -> int:
        """The title's column in the index, -1 if the corpus lacks it."""
        column = self._column.get(title)
        if column is not None:
            return column
        return self._column_of_words.get(" ".join(self._terms.split(title)), -1)

    def _weigh(
        self,
        counts: sparse.csr_matrix,
        lengths: NDArray[np.float64],
        holders: NDArray[np.floating[Any] | np.integer[Any]],
    ) -> sparse.csr_matrix:
        """The formula: `(titles, words)` from counts of the same shape.

        Args:
            counts: of the words in the titles.
            lengths: words of each title.
            holders: in how many titles of the corpus each word stands.
        """
        rarity = np.log(1 + (len(self._titles) - holders + 0.5) / (holders + 0.5))
        factors = self.k1 * (1 - self.b + self.b * lengths / self._mean_length)
        weights = counts.copy()
        factor = np.repeat(factors, np.diff(counts.indptr))
        weights.data = rarity[counts.indices] * counts.data / (counts.data + factor)
        return weights
