"""The variables of a model in training, and the weights to rank with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.common.keras_internals import moving_averages
from dssm_tf.optimizers import ScheduledNesterov


def training_state(model: keras.Model) -> list[Any]:
    """Every variable that training changes: weights, random seeds, the optimizer's variables."""
    return [*model.variables, *model.optimizer.variables]


def assign_all(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Assigns one value to each variable."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def ranking_weights(model: keras.Model) -> list[np.ndarray]:
    """The weights to rank with, in the order of `model.weights`.

    If the optimizer has moving averages, they replace the trainable weights. With Nesterov's
    method, the trainable weights are those of the current point, not of the look-ahead point at
    which the next gradient is taken. Weights that are not trainable are returned unchanged.

    Raises:
        UserError: a weight is not a finite number.
    """
    optimizer, trainable = model.optimizer, model.trainable_variables
    current = trainable
    if optimizer.use_ema:
        current = moving_averages(optimizer)
    elif isinstance(optimizer, ScheduledNesterov):
        current = optimizer.without_look_ahead(trainable)
    values_by_id = {id(weight): value for weight, value in zip(trainable, current, strict=True)}
    values = [
        keras.ops.convert_to_numpy(values_by_id.get(id(weight), weight)) for weight in model.weights
    ]
    if not all(np.isfinite(value).all() for value in values):
        raise UserError(
            "a weight is not a finite number; lower optimizer.learning_rate, or set "
            "optimizer.clip_norm."
        )
    return values
