"""Ranks the distinct titles of an index by the score maxsim, in two steps.

First, all titles are scored, but each query word matches only its most similar words, by default 16
(`SIMILAR_WORDS`), and text vectors are left out. Then the best titles, by default 200 (`RESCORED`),
are scored by the full formula. So the returned scores are those of the model. A title is missed
only if the first step ranks it far lower than the full formula does. Both steps include the prior.
Titles without any similar word are not ranked.

Titles with remembered clicks for the query are scored by the full formula too, and their clicks are
added, see `dssm_tf.runtime.remembered_clicks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.clicked_titles import ClickedTitles
from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.retrieval.load_kernels import load_kernels
from dssm_tf.retrieval.maxsim_query import PreparedQuery, QueryPreparer
from dssm_tf.retrieval.rounded_vectors import ROUNDING, RoundedVectors
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.similar_words import SimilarWords

RESCORED = 200
"""The number of titles that are scored by the full formula, if not set otherwise."""

Booleans = NDArray[np.bool_]

_NO_TITLES = np.zeros(0, np.int32)
_ALL_TITLES = np.zeros(0, np.bool_)  # for the compiled functions: no filter


class Filter(NamedTuple):
    """Entries of the corpus that a search may return; `MaxSimIndex.filter` creates it.

    Attributes:
        entries: `(entries,)`, whether the search may return each entry.
        titles: `(titles,)`, whether a title has such an entry.
    """

    entries: Booleans
    titles: Booleans


class RankedTitles(NamedTuple):
    """Distinct titles of an index and their scores, best first.

    Attributes:
        titles: int32, positions in the arrays of the index.
        scores: float32, with the prior.
    """

    titles: NDArray[np.int32]
    scores: NDArray[np.float32]


class MaxSimRanking:
    """Ranks the distinct titles of an index. Several threads may use it at once.

    Args:
        maxsim: vectors and weights of words.
        row_of: the row of each word of the titles.
        arrays: the arrays of the index, plain and read-only.
        similar_words: the number of similar words of a query word in the first step; None for all.
        rescored: the number of candidates that are scored by the full formula.
        clicked: the titles of the model's remembered clicks; None if it remembers none.

    Raises:
        UserError: Numba is not installed.
    """

    def __init__(
        self,
        maxsim: MaxSim,
        row_of: Mapping[str, int],
        arrays: Arrays,
        similar_words: int | None,
        rescored: int,
        clicked: ClickedTitles | None,
    ) -> None:
        self._arrays, self._rescored, self._clicked = arrays, rescored, clicked
        self._threshold, self._kernels = maxsim.threshold, load_kernels()
        self._rounded = RoundedVectors(arrays.vectors, self._kernels)
        similar = SimilarWords(
            maxsim, [*row_of], similar_words, arrays.vectors, self._rounded.nearest
        )
        self._queries = QueryPreparer(maxsim, row_of, arrays, similar, self._kernels)

    def rank(
        self,
        words: Sequence[str],
        k: int,
        allowed: Filter | None = None,
        bonus: NDArray[np.float32] | None = None,
    ) -> RankedTitles:
        """The best `k` titles for a query. Titles with equal scores are in the order of the arrays.

        Args:
            words: the words of the query, in order.
            k: the number of titles, at least 1.
            allowed: the entries that may be returned; None for all.
            bonus: `(titles,)`, a number for each title; titles are ordered by score plus bonus.

        Returns:
            The titles with the scores of the model, remembered clicks included, without the bonus.
        """
        clicked = _NO_TITLES if self._clicked is None else self._clicked.titles(words)
        titles, scores = self.candidates(words, k, allowed, clicked, bonus)
        scores = self._with_clicks(words, titles, scores)
        sorted_by = scores if bonus is None else scores + bonus[titles]
        best = np.argsort(-sorted_by, kind="stable")[:k]
        return RankedTitles(titles[best], scores[best])

    def candidates(
        self,
        words: Sequence[str],
        k: int,
        allowed: Filter | None = None,
        additional: NDArray[np.int32] = _NO_TITLES,
        bonus: NDArray[np.float32] | None = None,
    ) -> RankedTitles:
        """The titles that are scored by the full formula for a query, in the order of the arrays.

        Args:
            words: the words of the query, in order.
            k: the minimum number of titles, at least 1.
            allowed: the entries that may be returned; None for all.
            additional: positions of titles to score besides the best ones of the first step.
            bonus: `(titles,)`, a number that the first step adds to the score of each title.

        Returns:
            The titles with the scores of the model, without remembered clicks and bonus.
        """
        if (query := self._queries.prepare(words)) is None:
            return RankedTitles(np.zeros(0, np.int32), np.zeros(0, np.float32))
        arrays, kernels = self._arrays, self._kernels
        titles = kernels.best_titles(
            arrays.word_starts, arrays.word_titles, arrays.pair_starts, arrays.pair_titles,
            arrays.word_weights, arrays.pair_weights, arrays.inverse_totals,
            arrays.priors if bonus is None else arrays.priors + bonus,
            _ALL_TITLES if allowed is None else allowed.titles,
            query.ends, query.rows, query.similarities,
            query.weights, query.pairs, query.pair_weights,
            min(max(k, self._rescored), arrays.titles),
        )  # fmt: skip
        if allowed is not None:
            additional = additional[allowed.titles[additional]]
        if len(additional):
            titles = np.union1d(titles, additional)
        titles.sort()  # so titles with equal scores are in order
        return RankedTitles(titles, self._scores_without_clicks(query, titles))

    def scores(self, words: Sequence[str], titles: NDArray[np.int32]) -> NDArray[np.float32]:
        """The scores of any titles for a query by the full formula, `(titles,)`.

        Args:
            words: the words of the query, at least one.
            titles: positions of the titles.

        Raises:
            ValueError: the query has no word.
        """
        if (query := self._queries.prepare(words)) is None:
            raise ValueError("The query has no word; expected at least one.")
        return self._with_clicks(words, titles, self._scores_without_clicks(query, titles))

    def parts_of_clicks(self, words: Sequence[str], titles: NDArray[np.int32]) -> list[float]:
        """The part of the scores of titles that the remembered clicks of a query add.

        Args:
            words: the words of the query, in order.
            titles: positions of the titles.

        Returns:
            A number for each title; 0 for a title without remembered clicks.
        """
        added = None
        if self._clicked is not None and len(self._clicked.titles(words)):
            query = self._queries.prepare(words)
            if query is not None:
                scores = self._scores_without_clicks(query, titles)
                added = self._clicked.added(words, titles, scores)
        return [0.0] * len(titles) if added is None else added.tolist()

    def similar_words(self, word: str) -> list[tuple[int, float]]:
        """Rows and similarities of the similar words of a query word, most similar first."""
        rows, similarities = self._queries.similar_words(word)
        return list(zip(rows.tolist(), similarities.tolist(), strict=True))

    def _with_clicks(
        self, words: Sequence[str], titles: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Adds the part of the remembered clicks of a query to the scores of titles."""
        if self._clicked is None:
            return scores
        added = self._clicked.added(words, titles, scores)
        return scores if added is None else (scores + added).astype(np.float32)

    def _scores_without_clicks(
        self, query: PreparedQuery, titles: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """The scores of titles by the full formula, with the prior, without remembered clicks."""
        arrays, rounded = self._arrays, self._rounded
        scores: NDArray[np.float32] = self._kernels.exact_scores(
            arrays.title_starts, arrays.title_words, arrays.title_pair_starts, arrays.title_pairs,
            arrays.vectors, rounded.rounded, rounded.scales, rounded.error, ROUNDING,
            arrays.word_weights, arrays.pair_weights, arrays.inverse_totals, arrays.priors,
            titles, query.vectors, query.weights, query.pairs, query.pair_weights,
            query.rule_ends, query.rule_rows, query.rule_similarities, self._threshold,
            arrays.text_vectors, arrays.text_scales, query.text_vector,
        )  # fmt: skip
        return scores
