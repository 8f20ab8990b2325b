"""Latent semantic analysis: TF-IDF vectors projected onto their strongest directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tfidf import TfIdfStatistics, idf_of
from dssm_tf.common.field_types import PositiveInt, Seed

_DENSE_LIMIT = 200  # number of titles or words up to which the full decomposition is faster


@dataclass(frozen=True, eq=False)
class LSAStatistics(TfIdfStatistics):
    """The truncated singular value decomposition of a corpus's TF-IDF matrix.

    Attributes:
        terms: see `TfIdfStatistics`.
        idf: see `TfIdfStatistics`.
        singular_values: `S` in descending order, `(topics,)`.
        directions: `U`, `(words, topics)`.
    """

    singular_values: Floats
    directions: Floats


class LSA(Baseline[LSAStatistics]):
    """Scores a title by the cosine of its semantic vector and the query's.

    The matrix of the titles' TF-IDF vectors, words by titles, is approximated by its largest
    singular values, `C = U S V'`. A text with the TF-IDF vector `x` has the semantic vector
    `S^power U' x`, so queries, and titles outside the corpus, need no fitting.

    Reference: Deerwester et al. 1990; Shen et al. 2014, sec. 2.2.
    """

    name = "lsa"
    learned_type = LSAStatistics
    learned_shapes: ClassVar[LearnedShapes] = {
        "idf": ("terms",),
        "singular_values": ("columns",),
        "directions": ("terms", "columns"),
    }
    search_space: ClassVar[SearchSpace] = {"topics": (25, 50, 100), "power": (-1.0, 0.0)}
    cache_key_params = ("topics", "power")

    topics: PositiveInt = Field(
        default=100,
        description="Number of singular values; a small corpus may have fewer. A fitted model can "
        "be used with a smaller number, but not with a larger one.",
    )
    power: float = Field(
        default=-1.0,
        description="Power of the singular values. -1 is the projection `A = U S^-1` of Shen et "
        "al., in which rare directions weigh as much as frequent ones. 0 is the projection `U` of "
        "Deerwester et al.: titles are compared by the columns of the truncated matrix.",
    )
    seed: Seed = Field(
        default=0, description="Seed of the vector that the decomposition starts from."
    )

    def _fit(self, clicks: list[Click], titles: list[str]) -> LSAStatistics:
        terms = Terms.from_corpus(titles, self.name)
        tfidf = TfIdfStatistics(terms, idf_of(terms, titles))
        largest = _largest_singular_values(tfidf.vectors(titles), self.topics, self.seed)
        return LSAStatistics(tfidf.terms, tfidf.idf, *largest)

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Semantic vectors, scaled to length 1 or all 0: `(texts, topics)`."""
        directions = np.ascontiguousarray(self.learned.directions[:, : self.topics])
        vectors = self.learned.vectors(texts) @ directions
        # If a text is orthogonal to all directions, only rounding errors remain.
        vectors[np.linalg.norm(vectors, axis=1) <= 1e-12] = 0.0
        vectors *= self.learned.singular_values[: self.topics] ** self.power
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1.0)

    def _encode_titles(self, titles: tuple[str, ...]) -> Floats:
        return self.vectors(titles).T

    def _score(self, queries: Sequence[str], encoded: Floats) -> Floats:
        return stable_product(self.vectors(queries), encoded)


def _largest_singular_values(
    matrix: sparse.csr_matrix, count: int, seed: int
) -> tuple[Floats, Floats]:
    """The largest singular values in descending order, and their directions `(words, count)`."""
    smaller_side = min(matrix.shape)
    if smaller_side <= max(_DENSE_LIMIT, count):
        _, values, transposed = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        from scipy.sparse.linalg import svds  # slow to import

        start = np.random.default_rng(seed).normal(size=smaller_side)
        _, values, transposed = svds(matrix, k=count, v0=start, solver="arpack")
        order = np.argsort(values)[::-1]
        values, transposed = values[order], transposed[order]
    nonzero = values[:count] > 1e-10 * values[0]
    directions = transposed[:count][nonzero].T
    # The sign of a singular vector is arbitrary, so its largest entry is made positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    return values[:count][nonzero], np.ascontiguousarray(directions * signs)
