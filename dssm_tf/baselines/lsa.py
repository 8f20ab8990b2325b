"""Latent semantic analysis: TF-IDF vectors in the space of their strongest directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings, numbers
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.tfidf import Weighting
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self

_DENSE = 200  # up to this many titles or words the whole decomposition is quicker


class LSA(Baseline):
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
    free: ClassVar[Mapping[str, Sequence[Any]]] = {"topics": (25, 50, 100), "power": (-1.0, 0.0)}

    def __init__(self, topics: int = 100, power: float = -1.0, seed: int = 0) -> None:
        if topics < 1:
            raise ValueError(f"topics is {topics}; expected at least 1.")
        if not np.isfinite(power):
            raise ValueError(f"power is {power}; expected a number such as 0 or -1.")
        self.topics = topics
        self.power = power
        self.seed = seed

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Decomposes the titles. Clicks are not used; equal titles count once each."""
        titles = list(titles)
        weighting = Weighting.of(titles, "LSA")
        values, directions = _strongest(weighting.vectors(titles), self.topics, self.seed)
        return self._set(weighting, values, directions)

    def with_parameters(self, **values: Any) -> Self:
        """The same decomposition with another cut or another power."""
        other = super().with_parameters(**values)
        other._titles = TitleCache()
        return other

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query."""
        ranked = self._titles.get(titles, lambda texts: self.vectors(texts).T)
        return stable_product(self.vectors(queries), ranked)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Semantic vectors, of length 1 or 0: `(texts, topics)`."""
        directions = np.ascontiguousarray(self._directions[:, : self.topics])
        vectors = self._weighting.vectors(texts) @ directions
        # A text at right angles to every direction kept has only rounding left.
        vectors[np.linalg.norm(vectors, axis=1) <= 1e-12] = 0.0
        vectors *= self.singular_values[: self.topics] ** self.power
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
        return unit

    def _learned(self) -> tuple[Settings, Arrays]:
        arrays = {
            "rarity": self._weighting.rarity,
            "singular_values": self.singular_values,
            "directions": self._directions,
        }
        return {"words": self._weighting.terms.to_json()}, arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        weighting = Weighting.restored(settings, arrays)
        tiny = float(np.finfo(np.float64).tiny)  # they are divided by
        values = numbers(arrays, "singular_values", None, least=tiny)
        size = len(weighting.terms)
        self._set(weighting, values, numbers(arrays, "directions", size, len(values)))

    def _set(
        self,
        weighting: Weighting,
        singular_values: NDArray[np.float64],
        directions: NDArray[np.float64],
    ) -> Self:
        self._weighting = weighting
        self.singular_values = singular_values
        self._directions = directions
        self._titles: TitleCache[NDArray[np.float64]] = TitleCache()
        return self


def _strongest(
    matrix: sparse.csr_matrix, count: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    kept = values[:count] > 1e-10 * max(values[0], 1e-300)
    directions = transposed[:count][kept].T
    # The sign of a singular vector is free; its largest entry is made positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    return values[:count][kept], np.ascontiguousarray(directions * signs)
