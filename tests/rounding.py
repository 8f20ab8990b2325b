"""How far one number may lie from itself in two computations that are both right."""

from __future__ import annotations

import numpy as np


def rounding(terms: int, size: float, dtype: str = "float32") -> float:
    """Bound of the difference of two sums of the same numbers, added in other orders.

    CPUs, thread counts and batches of other shapes have orders of their own.

    Args:
        terms: how many numbers.
        size: what they come to without their signs.
        dtype: what is added.

    Reference: Higham 2002, "Accuracy and stability of numerical algorithms", eq. 4.4.
    """
    return terms * float(np.finfo(dtype).eps) * size
