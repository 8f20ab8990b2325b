"""What a gradient is compared with: central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def numerical_gradient(value: Callable[[], float], parameter: np.ndarray) -> np.ndarray:
    """The derivative of a value in every entry of a float64 parameter, which is moved in place."""
    found = np.zeros_like(parameter)
    for place in np.ndindex(parameter.shape):
        kept, sides = parameter[place], []
        for step in (1e-6, -1e-6):
            parameter[place] = kept + step
            sides.append(float(value()))
        parameter[place] = kept
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found
