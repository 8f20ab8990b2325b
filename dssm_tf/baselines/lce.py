"""Latent concept expansion: the sequential dependence model, fed back with its own best titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.mrf import MRF, AskedWords
from dssm_tf.baselines.tokens import Ids, Tokens, ranges

_CELLS = 1 << 22  # scores of the corpus held at once: 32 MiB


class LCE(MRF):
    """Adds to a query the words that stand out in the titles that `mrf` ranks first for it.

    With `R` the best titles of the corpus for the query `Q`, `S(Q, D)` their score under `mrf` and
    `f(e, D)` its feature of a word, the weight of a word `e` that a title of `R` holds is

        P(e | Q) ~ sum over D in R of exp(S(Q, D) + f(e, D) + rarity log(|C| / cf(e)))

    The largest `concepts` of them are made to sum to one, and the score of any title is

        (1 - feedback_weight) S(Q, D) + feedback_weight |Q| sum over e of P(e | Q) f(e, D)

    with `|Q|` the query's known words: both parts then weigh as a query of that length. A query
    without a known word gets no concepts.

    The paper also takes pairs of words as concepts; single words are what it measures most and
    what is done here, for a title is too short to show pairs that stand out.

    Args:
        mu: see `MRF`.
        weights: see `MRF`.
        window: see `MRF`.
        feedback_titles: how many titles to learn from, at least 1; ties go to the earlier title.
        concepts: how many words to add, at least 1; ties go to the earlier in the alphabet.
        feedback_weight: of the concepts against the query, from 0 (as `mrf`) to 1.
        rarity: how much words that are common in the corpus are marked down, at least 0.

    Reference: Metzler and Croft 2007, the expansion with single-term concepts.
    """

    name = "lce"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {
        "mu": (3.0, 10.0, 30.0),
        "weights": ((1.0, 0.0, 0.0), (0.85, 0.10, 0.05), (0.70, 0.20, 0.10)),
        "feedback_titles": (10, 30),
        "concepts": (10, 30),
        "feedback_weight": (0.0, 0.1, 0.3),
        "rarity": (0.0, 0.5),
    }

    def __init__(
        self,
        mu: float = 10.0,
        weights: Sequence[float] = (0.85, 0.10, 0.05),
        window: int = 8,
        *,
        feedback_titles: int = 10,
        concepts: int = 10,
        feedback_weight: float = 0.1,
        rarity: float = 0.0,
    ) -> None:
        super().__init__(mu, weights, window)
        self.feedback_titles = feedback_titles
        self.concepts = concepts
        self.feedback_weight = feedback_weight
        self.rarity = rarity
        if feedback_titles < 1 or concepts < 1:
            raise ValueError(
                f"feedback_titles is {feedback_titles} and concepts is {concepts}; "
                "expected at least 1 of each."
            )
        if not 0 <= feedback_weight <= 1 or not rarity >= 0:
            raise ValueError(
                f"feedback_weight is {feedback_weight} and rarity is {rarity}; "
                "expected 0 to 1, and at least 0."
            )

    def _score(self, asked: AskedWords, titles: Tokens) -> NDArray[np.float64]:
        scores = super()._score(asked, titles)
        if self.feedback_weight == 0:
            return scores
        concepts = self._concepts(asked, scores if titles is self._corpus else None)
        used = np.unique(concepts.indices)
        expansion = self._features(
            [(concepts[:, used], titles.by_word[used], self._word_counts()[used])], titles
        )
        expansion *= np.asarray(asked.word_counts.sum(axis=1))
        return (1 - self.feedback_weight) * scores + self.feedback_weight * expansion

    def _word_counts(self) -> NDArray[np.float64]:
        """Counts of all words in the corpus."""
        return np.asarray(self._corpus.by_word.sum(axis=1)).ravel()

    def _concepts(self, asked: AskedWords, scores: NDArray[np.float64] | None) -> sparse.csr_matrix:
        """`P(e | Q)` of the chosen words: `(queries, words)`.

        Args:
            asked: the queries.
            scores: of the corpus under `mrf`, if they are known already.
        """
        queries, step = asked.word_counts.shape[0], max(1, _CELLS // len(self._corpus))
        blocks = []
        for start in range(0, queries, step):
            rows = slice(start, start + step)
            part = asked._replace(
                word_counts=asked.word_counts[rows], pair_counts=asked.pair_counts[rows]
            )
            corpus_scores = super()._score(part, self._corpus) if scores is None else scores[rows]
            blocks.append(self._largest(self._feedback(part, corpus_scores)))
        if not blocks:
            return sparse.csr_matrix((0, len(self._terms)))
        concepts: sparse.csr_matrix = sparse.vstack(blocks, format="csr")
        return concepts

    def _feedback(self, asked: AskedWords, scores: NDArray[np.float64]) -> sparse.csr_matrix:
        """`P(e | Q)` up to a factor, of every word in the best titles: `(queries, words)`."""
        # A query without words would take whatever titles come first.
        has_words = np.diff(asked.word_counts.indptr) > 0
        best = _best_columns(scores[has_words], self.feedback_titles)
        values = np.take_along_axis(scores[has_words], best, axis=1)
        likelihoods = np.exp(values - values.max(axis=1, keepdims=True))
        # exp f(e, D) = (tf + mu cf / |C|) / (|D| + mu)
        likelihoods /= (self._corpus.lengths + self.mu)[best]
        starts = np.zeros(len(scores) + 1, dtype=np.int64)
        np.cumsum(np.where(has_words, best.shape[1], 0), out=starts[1:])
        titles = sparse.csr_matrix(
            (likelihoods.ravel(), best.ravel(), starts), shape=(len(scores), len(self._corpus))
        )
        found = (titles @ self._corpus.counts).tocsr()
        found.sort_indices()
        share = self._word_counts() / len(self._corpus.ids)
        background = np.repeat(titles @ np.ones(len(self._corpus)), np.diff(found.indptr))
        found.data += self.mu * share[found.indices] * background
        found.data *= share[found.indices] ** -self.rarity
        return found

    def _largest(self, found: sparse.csr_matrix) -> sparse.csr_matrix:
        """The largest entries of each row, at most `concepts`, made to sum to one."""
        row = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        order = np.lexsort((found.indices, -found.data, row))
        lengths = np.minimum(np.diff(found.indptr), self.concepts)
        kept = np.sort(order[ranges(found.indptr[:-1].astype(np.int64), lengths.astype(np.int64))])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        largest = sparse.csr_matrix((found.data[kept], found.indices[kept], starts), found.shape)
        largest.data /= np.repeat(largest @ np.ones(found.shape[1]), lengths)
        return largest


def _best_columns(scores: NDArray[np.float64], count: int) -> Ids:
    """The columns of the highest scores of each row, ties to the first: `(rows, count)`, sorted."""
    count = min(count, scores.shape[1])
    if len(scores) == 0:
        return np.empty((0, count), dtype=np.int64)
    chosen = scores >= np.partition(scores, -count, axis=1)[:, -count, None]
    # Where the last place is tied, the first of the tied ones keep theirs.
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > count)
    last = scores[crowded].min(axis=1, where=chosen[crowded], initial=np.inf, keepdims=True)
    tied = scores[crowded] == last
    room = count - np.count_nonzero(scores[crowded] > last, axis=1, keepdims=True)
    chosen[crowded] &= ~tied | (np.cumsum(tied, axis=1) <= room)
    return np.nonzero(chosen)[1].reshape(len(scores), count)
