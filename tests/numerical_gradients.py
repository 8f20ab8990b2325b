"""Numerical gradients to compare computed gradients with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


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


def check_gradients(value: Callable[[], Any], variables: Sequence[keras.Variable]) -> list[Any]:
    """Compares the gradients of TensorFlow with central differences, at every entry.

    Args:
        value: computes a number, float64, from the current content of the variables.
        variables: float64; changed during the computation and restored.

    Returns:
        The gradient of each variable, a NumPy array of its shape.
    """
    with tf.GradientTape() as tape:
        total = value()
    gradients = [np.array(tf.convert_to_tensor(g)) for g in tape.gradient(total, variables)]
    for variable, gradient in zip(variables, gradients, strict=True):
        start = variable.numpy().copy()

        def value_at(variable=variable, start=start):
            variable.assign(start)
            return value()

        expected = numerical_gradient(value_at, start)
        np.testing.assert_allclose(gradient, expected, atol=1e-7, err_msg=variable.path)
        variable.assign(start)
    return gradients
