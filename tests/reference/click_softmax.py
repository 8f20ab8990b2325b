"""Cosine, posterior and loss of the click models, by closed forms.

Reference: Palangi et al. 2016, appendix A.

Its eq. 7 has a minus sign before a sum over `alpha`, which is negative by eq. 8. The derivative of
the loss by `Delta_j` is `alpha_j` itself, as finite differences of eq. 5 show.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cosine(y_q: Array, y_d: Array) -> float:
    """R(Q, D) (eq. 3)."""
    return float(y_q @ y_d / (np.linalg.norm(y_q) * np.linalg.norm(y_d)))


def cosine_gradients(y_q: Array, y_d: Array) -> tuple[Array, Array]:
    """`v_Q` and `v_D`, the derivatives of R by `y_Q` and `y_D` (eq. 12 and 15)."""
    a = y_q @ y_d
    b = 1 / np.linalg.norm(y_q)
    c = 1 / np.linalg.norm(y_d)
    return b * c * y_d - a * b**3 * c * y_q, b * c * y_q - a * b * c**3 * y_d


def tanh_cosine_gradients(y_q: Array, y_d: Array) -> tuple[Array, Array]:
    """The derivatives by the inputs `s` of a last tanh, `y = tanh(s)` (eq. 11)."""
    v_q, v_d = cosine_gradients(y_q, y_d)
    return (1 - y_q) * (1 + y_q) * v_q, (1 - y_d) * (1 + y_d) * v_d


def loss(cosines: Array, gamma: float) -> float:
    """Loss of one query, clicked title first (eq. 5): `log(1 + sum_j exp(-gamma Delta_j))`."""
    deltas = cosines[0] - cosines[1:]
    return float(np.log(1 + np.exp(-gamma * deltas).sum()))


def alphas(cosines: Array, gamma: float) -> Array:
    """Derivative of the loss by each `Delta_j` (eq. 8)."""
    weights = np.exp(-gamma * (cosines[0] - cosines[1:]))
    return -gamma * weights / (1 + weights.sum())


def loss_gradient(cosines: Array, gamma: float) -> Array:
    """Derivative of the loss by each cosine; `Delta_j` is the clicked cosine minus another."""
    alpha = alphas(cosines, gamma)
    return np.concatenate([[alpha.sum()], -alpha])
