"""Latent semantic analysis: TF-IDF vectors in the space of their strongest directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import Click, Count, Floats, Grid, Seed
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.tfidf import TfIdf

_DENSE = 200  # up to this many titles or words the whole decomposition is quicker


class LSA(TfIdf):
    """Scores a title by the cosine of its semantic vector and the query's.

    The matrix of the titles' TF-IDF vectors, words by titles, is cut to its largest
    singular values, `C ~ U S V'`. A text with the TF-IDF vector `x` has the semantic
    vector `S^power U' x`, so titles outside the corpus and queries need no fitting.

    Args:
        topics: singular values kept, as far as the corpus has them. A fitted
            model may use fewer than it was fitted with, not more.
        power: of the singular values. With -1 the projection is Shen et al.'s
            `A = U S^-1`, in which rare directions weigh as much as frequent ones; with
            0 it is `U`, and the cosine that of the columns of the cut matrix, by which
            Deerwester et al. compare titles.
        seed: of the vector that the decomposition starts from.

    Reference: Deerwester et al. 1990; Shen et al. 2014, sec. 2.2.
    """

    name = "lsa"
    prepared_with = ("topics", "power")
    topics: Annotated[Count, Grid((25, 50, 100))] = 100
    power: Annotated[float, Grid((-1.0, 0.0))] = -1.0
    seed: Seed = 0

    singular_values: Floats
    directions: Floats

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        super()._learn(clicks, titles)
        self.singular_values, self.directions = _strongest(
            self.weighted(titles), self.topics, self.seed
        )

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Semantic vectors, of length 1 or 0: `(texts, topics)`."""
        directions = np.ascontiguousarray(self.directions[:, : self.topics])
        vectors = self.weighted(texts) @ directions
        # A text at right angles to every direction kept has only rounding left.
        vectors[np.linalg.norm(vectors, axis=1) <= 1e-12] = 0.0
        vectors *= self.singular_values[: self.topics] ** self.power
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1.0)

    def _prepare(self, titles: tuple[str, ...]) -> Floats:
        return self.vectors(titles).T

    def _score(self, queries: Sequence[str], prepared: Floats) -> Floats:
        return stable_product(self.vectors(queries), prepared)


def _strongest(matrix: sparse.csr_matrix, count: int, seed: int) -> tuple[Floats, Floats]:
    """The largest singular values, falling, and their directions `(words, count)`."""
    smaller = min(matrix.shape)
    if smaller <= max(_DENSE, count):
        _, values, transposed = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        from scipy.sparse.linalg import svds  # slow to import

        start = np.random.default_rng(seed).normal(size=smaller)
        _, values, transposed = svds(matrix, k=count, v0=start, solver="arpack")
        order = np.argsort(values)[::-1]
        values, transposed = values[order], transposed[order]
    kept = values[:count] > 1e-10 * values[0]
    directions = transposed[:count][kept].T
    # The sign of a singular vector is free; its largest entry is made positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    return values[:count][kept], np.ascontiguousarray(directions * signs)
