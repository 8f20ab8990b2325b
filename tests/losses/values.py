"""The values and the gradient of a loss, in float64."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf


def losses_per_query(loss: keras.losses.Loss, scores, labels) -> np.ndarray:
    """The loss of each query."""
    return np.array(_compute(loss, np.asarray(scores, np.float64), labels))


def gradient(loss: keras.losses.Loss, scores, labels) -> np.ndarray:
    """The derivative of the sum of the losses by each score."""
    variable = tf.Variable(np.asarray(scores, np.float64))
    with tf.GradientTape() as tape:
        losses = _compute(loss, variable, labels)
    return np.array(tape.gradient(losses, variable))


def _compute(loss, scores, labels):
    options = loss.get_config() | {"reduction": "none", "dtype": "float64"}
    return type(loss).from_config(options)(labels, scores)
