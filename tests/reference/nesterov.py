"""Nesterov's method by Palangi et al. 2016, eq. 6 and algorithm 1, in float64.

D_k = mu_{k-1} D_{k-1} - epsilon grad L(L_{k-1} + mu_{k-1} D_{k-1})
L_k = L_{k-1} + D_k
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def momentum(update: int, total: int, middle: float = 0.995, ends: float = 0.9) -> float:
    """mu of an update, from 0: `ends` in the first and last 2 % of the updates, else `middle`."""
    return ends if update < 0.02 * total or update >= 0.98 * total else middle


def descend(
    start: Array,
    gradient: Callable[[Array], Array],
    epsilon: float,
    updates: int,
    total: int,
    threshold: float | None = None,
) -> list[Array]:
    """`[L_0, L_1, ...]` after each of `updates` updates of a training of `total`."""
    parameters = [np.asarray(start, np.float64)]
    change = np.zeros_like(parameters[0])
    for k in range(1, updates + 1):
        mu = momentum(k - 1, total)
        slope = gradient(parameters[-1] + mu * change)
        norm = np.linalg.norm(slope)
        if threshold is not None and norm > threshold:
            slope = threshold * slope / norm
        change = mu * change - epsilon * slope
        parameters.append(parameters[-1] + change)
    return parameters
