"""Unit vectors rounded to one byte per number, to find those near another vector fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors

_BLOCK = 10_000  # vectors that are rounded at once
_ROUNDING = 1e-5  # of a product in float32


class RoundedVectors:
    """Unit vectors in a quarter of their bytes; the search in them misses no near vector.

    Rounding changes a vector `v` by an error `e(v)`. The inner product of two rounded vectors
    differs from the exact one by at most `|e(v)| + |e(w)| * (1 + |e(v)|)`, so all vectors above a
    slightly lower cosine are returned.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        kernels: the module `maxsim_kernels`.
    """

    def __init__(self, vectors: Vectors, kernels: Any) -> None:
        self._rows_near = kernels.rows_near
        self._rounded = np.empty(vectors.shape, np.int8)
        self._scales = np.empty(len(vectors), np.float32)
        self._error = 0.0
        for start in range(0, len(vectors), _BLOCK):
            block = vectors[start : start + _BLOCK]
            scales = np.abs(block).max(axis=1) / np.float32(kernels.LEVELS)
            rounded = np.rint(block / np.where(scales > 0, scales, 1)[:, None])
            squares = np.square(block - rounded * scales[:, None], dtype=np.float64).sum(axis=1)
            self._rounded[start : start + _BLOCK] = rounded
            self._scales[start : start + _BLOCK] = scales
            self._error = max(self._error, float(np.sqrt(squares.max())))

    def near(self, vector: Vectors, cosine: float, limit: int | None) -> NDArray[np.intp]:
        """Rows of all vectors with a cosine above `cosine`, or of the `limit` nearest of them.

        Args:
            vector: a unit vector, `(dimension,)`.
            cosine: the lowest cosine.
            limit: None for no limit.

        Returns:
            At least these rows, in ascending order.
        """
        count = len(self._scales) if limit is None else limit
        rows: NDArray[np.intp] = self._rows_near(
            self._rounded, self._scales, self._error, vector, cosine, count, _ROUNDING
        )
        return rows
