"""Unit vectors rounded to one byte per number, to find the most similar ones of a vector fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors

_BLOCK = 10_000  # vectors that are rounded at once
ROUNDING = 1e-5
"""The largest rounding error of a product of unit vectors in float32."""


class RoundedVectors:
    """Unit vectors in a quarter of their bytes; the search in them misses no similar vector.

    Rounding changes a vector `v` by an error `e(v)`. The inner product of two rounded vectors
    differs from the exact one by at most `|e(v)| + |e(w)| * (1 + |e(v)|)`, so the exact cosines of
    all vectors above a slightly lower cosine are computed.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        kernels: the module `maxsim_kernels`.

    Attributes:
        rounded: int8 `(rows, width)`, with zeros after the dimension.
        scales: float32 `(rows,)`, by which the rows are multiplied.
        error: the length of the largest difference between a row and its exact vector.
    """

    def __init__(self, vectors: Vectors, kernels: Any) -> None:
        self._vectors = vectors
        self._most_similar = kernels.most_similar
        count, dimension = vectors.shape
        width = -(-dimension // kernels.WIDTH) * kernels.WIDTH
        self.rounded = np.zeros((count, width), np.int8)
        self.scales = np.empty(count, np.float32)
        self.error = 0.0
        for start in range(0, count, _BLOCK):
            block = vectors[start : start + _BLOCK]
            scales = np.abs(block).max(axis=1) / np.float32(kernels.LEVELS)
            rounded = np.rint(block / np.where(scales > 0, scales, 1)[:, None])
            squares = np.square(block - rounded * scales[:, None], dtype=np.float64).sum(axis=1)
            self.rounded[start : start + _BLOCK, :dimension] = rounded
            self.scales[start : start + _BLOCK] = scales
            self.error = max(self.error, float(np.sqrt(squares.max())))

    def nearest(
        self, vector: Vectors, threshold: float, limit: int | None
    ) -> tuple[NDArray[np.intp], Vectors]:
        """Rows and similarities of the most similar vectors, see `similar_words.FindNearest`."""
        count = len(self.scales) if limit is None else limit
        rows, similarities = self._most_similar(
            self._vectors, self.rounded, self.scales, self.error, vector[None], threshold, count,
            ROUNDING,
        )  # fmt: skip
        return rows, similarities
