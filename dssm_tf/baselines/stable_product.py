"""A matrix product in which each row of the result depends only on the same row of `left`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def stable_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """`left @ right`; a row has bitwise the same result in any batch of rows.

    BLAS adds in an order that depends on the shapes, so the last bits of a
    query's score could depend on the other queries of the batch. The sparse
    product always adds in the order of the columns.

    Args:
        left: `(rows, inner)`.
        right: `(inner, columns)`.

    Returns:
        `(rows, columns)`.

    >>> stable_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    return sparse.csr_matrix(left) @ np.ascontiguousarray(right)
