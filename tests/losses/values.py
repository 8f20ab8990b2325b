"""The value and the gradient of a loss, in float64."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf


def each(made: keras.losses.Loss, scores, known) -> np.ndarray:
    """The loss of each query."""
    again = type(made).from_config(made.get_config() | {"reduction": "none", "dtype": "float64"})
    return np.array(again(known, np.asarray(scores, np.float64)))


def gradient(made: keras.losses.Loss, scores, known) -> np.ndarray:
    """The derivative of all queries' losses in each score."""
    variable = tf.Variable(np.asarray(scores, np.float64))
    again = type(made).from_config(made.get_config() | {"reduction": "sum", "dtype": "float64"})
    with tf.GradientTape() as tape:
        total = again(known, variable)
    return np.array(tape.gradient(total, variable))
