"""The largest difference that rounding can cause between two computations of one sum."""

from __future__ import annotations

import numpy as np


def rounding_bound(terms: int, size: float, dtype: str = "float32") -> float:
    """Bound of the difference between two sums of the same numbers in different orders.

    The order depends on the CPU, the number of threads and the shape of the batch.

    Args:
        terms: number of terms.
        size: sum of the absolute values.
        dtype: number type of the sums.

    Reference: Higham 2002, "Accuracy and stability of numerical algorithms", eq. 4.4.
    """
    return terms * float(np.finfo(dtype).eps) * size
