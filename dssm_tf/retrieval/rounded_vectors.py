"""Unit vectors rounded to one byte per number, to find those near another vector fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors

_BLOCK = 10_000  # vectors that are rounded at once
ROUNDING = 1e-5
"""The largest rounding error of a product of unit vectors in float32."""


class RoundedVectors:
    """Unit vectors in a quarter of their bytes; the search in them misses no near vector.

    Rounding changes a vector `v` by an error `e(v)`. The inner product of two rounded vectors
    differs from the exact one by at most `|e(v)| + |e(w)| * (1 + |e(v)|)`, so all vectors above a
    slightly lower cosine are returned.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        kernels: the module `maxsim_kernels`.

    Attributes:
        rounded: int8 `(rows, dimension)`.
        scales: float32 `(rows,)`, by which the rows are multiplied.
        error: the length of the largest difference between a row and its exact vector.
    """

    def __init__(self, vectors: Vectors, kernels: Any) -> None:
        self._rows_near = kernels.rows_near
        self.rounded = np.empty(vectors.shape, np.int8)
        self.scales = np.empty(len(vectors), np.float32)
        self.error = 0.0
        for start in range(0, len(vectors), _BLOCK):
            block = vectors[start : start + _BLOCK]
            scales = np.abs(block).max(axis=1) / np.float32(kernels.LEVELS)
            rounded = np.rint(block / np.where(scales > 0, scales, 1)[:, None])
            squares = np.square(block - rounded * scales[:, None], dtype=np.float64).sum(axis=1)
            self.rounded[start : start + _BLOCK] = rounded
            self.scales[start : start + _BLOCK] = scales
            self.error = max(self.error, float(np.sqrt(squares.max())))

    def near(self, vector: Vectors, cosine: float, limit: int | None) -> NDArray[np.intp]:
        """Rows of all vectors with a cosine above `cosine`, or of the `limit` nearest of them.

        Args:
            vector: a unit vector, `(dimension,)`.
            cosine: the lowest cosine.
            limit: None for no limit.

        Returns:
            At least these rows, in ascending order.
        """
        count = len(self.scales) if limit is None else limit
        rows: NDArray[np.intp] = self._rows_near(
            self.rounded, self.scales, self.error, vector[None], cosine, count, ROUNDING
        )
        return rows
