"""Dense products that do not depend on what else is in the matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def stable_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """`left @ right`, each number the same to the last bit in any batch.

    BLAS adds in an order that depends on the shapes, so a query could score
    differently alone and beside others. The sparse product adds in the order of
    the columns, always.

    Args:
        left: `(rows, inner)`.
        right: `(inner, columns)`.

    Returns:
        `(rows, columns)`.

    >>> stable_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    return sparse.csr_matrix(left) @ np.ascontiguousarray(right)
