"""Unit vectors rounded to one byte per number, to find those near another vector fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors

_BLOCK = 10_000  # vectors that are rounded at once
_LEVELS = 127
_ROUNDING = 1e-5  # of a product in float32


class RoundedVectors:
    """Unit vectors in a quarter of their bytes; the search in them misses no near vector.

    A vector `v` is rounded to `v + e`. Cosines of rounded vectors differ from the exact ones by at
    most `|e| of one + |e| of the other * (1 + |e| of the first)`, so all vectors above a slightly
    lower cosine are returned.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        rows_above: see `maxsim_kernels.rows_above`.
    """

    def __init__(self, vectors: Vectors, rows_above: Any) -> None:
        self._rows_above = rows_above
        self._rounded = np.empty(vectors.shape, np.int8)
        self._scales = np.empty(len(vectors), np.float32)
        self._error = 0.0
        for start in range(0, len(vectors), _BLOCK):
            block = slice(start, start + _BLOCK)
            rounded, self._scales[block], error = _round(vectors[block])
            self._rounded[block] = rounded
            self._error = max(self._error, error)

    def near(self, vector: Vectors, cosine: float, limit: int | None) -> NDArray[np.intp]:
        """Rows of all vectors with a cosine above `cosine`, or of the `limit` nearest of them.

        Args:
            vector: a unit vector, `(dimension,)`.
            cosine: the lowest cosine.
            limit: None for no limit.

        Returns:
            At least these rows, in ascending order.
        """
        rounded, scales, error = _round(vector[None])
        margin = self._error + error * (1 + self._error) + _ROUNDING
        rows, cosines = self._rows_above(
            self._rounded, self._scales, rounded[0].astype(np.int16), scales[0], cosine - margin
        )
        if limit is None or len(rows) <= limit:
            return np.asarray(rows, np.intp)
        # The cosines of `limit` rows are at least this high, up to rounding.
        lowest = np.partition(cosines, len(rows) - limit)[len(rows) - limit]
        return np.asarray(rows[cosines >= lowest - 2 * margin], np.intp)


def _round(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.float32], float]:
    """Rounds vectors.

    Returns:
        Whole numbers, `(rows, dimension)`; the scale of each row; the length of the largest error.
    """
    scales = (np.abs(vectors).max(axis=1, initial=0) / _LEVELS).astype(np.float32)
    rounded = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
    errors = vectors - rounded * scales[:, None]
    largest = float(np.sqrt(np.square(errors, dtype=np.float64).sum(axis=1)).max(initial=0))
    return rounded.astype(np.int8), scales, largest
