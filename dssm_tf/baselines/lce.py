"""Latent concept expansion: the sequential dependence model with feedback from its best titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field, NonNegativeFloat
from scipy import sparse

from dssm_tf.baselines.base import Floats, SearchSpace
from dssm_tf.baselines.mrf import MRF
from dssm_tf.baselines.tokens import Tokens
from dssm_tf.common.field_types import Fraction, PositiveInt

_CELLS = 1 << 22  # scores of the corpus that are in memory at once: 32 MiB


class LCE(MRF):
    """Expands a query with words (concepts) that stand out in the titles that `mrf` ranks first.

    `R` are the `feedback_titles` best titles of the corpus for the query `Q`. `S(Q, D)` is the
    score of a title `D` by `mrf`, and `f(e, D)` the feature of a word `e` in `mrf`. The weight of a
    word that occurs in `R` is, up to a constant factor,

        P(e | Q) ~ sum over D in R of exp(S(Q, D) + f(e, D) + icf_weight log(|C| / cf(e)))

    The `concepts` largest weights are scaled to sum to one, and the score of any title is

        (1 - feedback_weight) S(Q, D) + feedback_weight |Q| sum over e of P(e | Q) f(e, D)

    with `|Q|` the number of known words of the query. `S` is a sum over these words, and `P(e | Q)`
    sums to one, so the factor `|Q|` gives both terms the same scale. A query without a known word
    gets no concepts. Ties go to the earlier title, and to the earlier word in the alphabet.

    The paper also uses pairs of words as concepts, but evaluates mostly single words. Only single
    words are used here, because a title is too short for pairs that stand out.

    Reference: Metzler and Croft 2007, the expansion with single-term concepts.
    """

    name = "lce"
    search_space: ClassVar[SearchSpace] = {
        "mu": (3.0, 10.0, 30.0),
        "weights": ((1.0, 0.0, 0.0), (0.85, 0.10, 0.05), (0.70, 0.20, 0.10)),
        "feedback_titles": (10, 30),
        "concepts": (10, 30),
        "feedback_weight": (0.0, 0.1, 0.3),
        "icf_weight": (0.0, 0.5),
    }

    feedback_titles: PositiveInt = Field(
        default=10, description="Number of titles that concepts come from."
    )
    concepts: PositiveInt = Field(default=10, description="Number of words to add.")
    feedback_weight: Fraction = Field(
        default=0.1, description="Weight of the concepts against the query; 0 is `mrf`."
    )
    icf_weight: NonNegativeFloat = Field(
        default=0.0,
        description="Weight of the log inverse collection frequency; above 0 prefers rare words.",
    )

    def _score(self, queries: Sequence[str], encoded: Tokens) -> Floats:
        scores = super()._score(queries, encoded)
        if self.feedback_weight == 0 or not len(queries):
            return scores
        concepts = self._concepts(queries)
        expansion = self._word_scores(concepts, encoded)
        expansion *= np.asarray(self._terms.count(queries).sum(axis=1))
        return (1 - self.feedback_weight) * scores + self.feedback_weight * expansion

    def _concepts(self, queries: Sequence[str]) -> sparse.csr_matrix:
        """`P(e | Q)` of the selected words, `(queries, words)`; needs at least one query."""
        step = max(1, _CELLS // len(self._corpus))
        blocks = []
        for start in range(0, len(queries), step):
            scores = super()._score(queries[start : start + step], self._corpus)
            blocks.append(self._largest(self._feedback(scores)))
        return sparse.vstack(blocks, format="csr")

    def _feedback(self, scores: Floats) -> sparse.csr_matrix:
        """`P(e | Q)` of each word of the best titles, not yet scaled: `(queries, words)`."""
        order = np.argsort(-scores, axis=1, kind="stable")
        best = np.sort(order[:, : self.feedback_titles], axis=1)
        values = np.take_along_axis(scores, best, axis=1)
        likelihoods = np.exp(values - values.max(axis=1, keepdims=True))
        # exp f(e, D) = (tf + mu cf / |C|) / (|D| + mu)
        likelihoods /= (self._corpus.lengths + self.mu)[best]
        starts = np.arange(len(scores) + 1) * best.shape[1]
        titles = sparse.csr_matrix(
            (likelihoods.ravel(), best.ravel(), starts), shape=(len(scores), len(self._corpus))
        )
        concepts = (titles @ self._corpus.counts).tocsr()
        concepts.sort_indices()
        probability = self._word_probabilities[concepts.indices]
        background = np.repeat(titles @ np.ones(len(self._corpus)), np.diff(concepts.indptr))
        concepts.data += self.mu * probability * background
        concepts.data *= probability**-self.icf_weight
        return concepts

    def _largest(self, concepts: sparse.csr_matrix) -> sparse.csr_matrix:
        """The largest entries of each row, at most `concepts`, scaled to sum to one."""
        row = np.repeat(np.arange(concepts.shape[0]), np.diff(concepts.indptr))
        order = np.lexsort((concepts.indices, -concepts.data, row))
        rank = np.arange(concepts.nnz) - concepts.indptr[row]
        best = np.sort(order[rank < self.concepts])
        cells = row[best], concepts.indices[best]
        largest = sparse.csr_matrix((concepts.data[best], cells), concepts.shape)
        largest.data /= np.repeat(largest @ np.ones(concepts.shape[1]), np.diff(largest.indptr))
        return largest
