"""Numerical gradients to compare computed gradients with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def numerical_gradient(value: Callable[[], float], parameter: np.ndarray) -> np.ndarray:
    """The gradient of a value by central differences.

    Args:
        value: computes the value from the current content of `parameter`.
        parameter: float64; changed in place during the computation and restored.
    """
    gradient = np.zeros_like(parameter)
    for index in np.ndindex(parameter.shape):
        original, values = parameter[index], []
        for step in (1e-6, -1e-6):
            parameter[index] = original + step
            values.append(float(value()))
        parameter[index] = original
        gradient[index] = (values[0] - values[1]) / 2e-6
    return gradient
