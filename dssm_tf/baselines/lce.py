"""Latent concept expansion: the sequential dependence model, fed back with its own best titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, AtLeastZero, Count, Floats, Grid, Share
from dssm_tf.baselines.mrf import MRF, Weights
from dssm_tf.baselines.tokens import Tokens

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
    mu: Annotated[AboveZero, Grid((3.0, 10.0, 30.0))] = 10.0
    weights: Annotated[
        Weights,
        Grid(((1.0, 0.0, 0.0), (0.85, 0.10, 0.05), (0.70, 0.20, 0.10))),
    ] = (0.85, 0.10, 0.05)
    window: Annotated[int, Field(ge=2)] = 8
    feedback_titles: Annotated[Count, Grid((10, 30))] = 10
    concepts: Annotated[Count, Grid((10, 30))] = 10
    feedback_weight: Annotated[Share, Grid((0.0, 0.1, 0.3))] = 0.1
    rarity: Annotated[AtLeastZero, Grid((0.0, 0.5))] = 0.0

    def _score(self, queries: Sequence[str], prepared: Tokens) -> Floats:
        scores = super()._score(queries, prepared)
        if self.feedback_weight == 0 or not len(queries):
            return scores
        concepts = self._concepts(queries)
        expansion = self._words(concepts, prepared)
        expansion *= np.asarray(self.terms.count(queries).sum(axis=1))
        return (1 - self.feedback_weight) * scores + self.feedback_weight * expansion

    def _concepts(self, queries: Sequence[str]) -> sparse.csr_matrix:
        """`P(e | Q)` of the chosen words, for at least one query: `(queries, words)`."""
        step = max(1, _CELLS // len(self._corpus))
        blocks = []
        for start in range(0, len(queries), step):
            scores = super()._score(queries[start : start + step], self._corpus)
            blocks.append(self._largest(self._feedback(scores)))
        return sparse.vstack(blocks, format="csr")

    def _feedback(self, scores: Floats) -> sparse.csr_matrix:
        """`P(e | Q)` up to a factor, of every word in the best titles: `(queries, words)`."""
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
        found = (titles @ self._corpus.counts).tocsr()
        found.sort_indices()
        share = self._word_shares[found.indices]
        background = np.repeat(titles @ np.ones(len(self._corpus)), np.diff(found.indptr))
        found.data += self.mu * share * background
        found.data *= share**-self.rarity
        return found

    def _largest(self, found: sparse.csr_matrix) -> sparse.csr_matrix:
        """The largest entries of each row, at most `concepts`, made to sum to one."""
        row = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        order = np.lexsort((found.indices, -found.data, row))
        rank = np.arange(found.nnz) - found.indptr[row]
        kept = np.sort(order[rank < self.concepts])
        cells = row[kept], found.indices[kept]
        largest = sparse.csr_matrix((found.data[kept], cells), found.shape)
        largest.data /= np.repeat(largest @ np.ones(found.shape[1]), np.diff(largest.indptr))
        return largest
