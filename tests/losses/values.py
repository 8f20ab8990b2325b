"""The value and the gradient of a loss, in float64."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf


def each(made: keras.losses.Loss, scores, known) -> np.ndarray:
    """The loss of each query."""
    return np.array(_each(made, np.asarray(scores, np.float64), known))


def gradient(made: keras.losses.Loss, scores, known) -> np.ndarray:
    """The derivative of all queries' losses in each score."""
    variable = tf.Variable(np.asarray(scores, np.float64))
    with tf.GradientTape() as tape:
        losses = _each(made, variable, known)
    return np.array(tape.gradient(losses, variable))


def _each(made, scores, known):
    options = made.get_config() | {"reduction": "none", "dtype": "float64"}
    return type(made).from_config(options)(known, scores)
