"""Wrappers for all private functions of Keras that this package uses.

Keras may change them in any version. `make test-keras` tests this file, and the code that uses it,
with the lowest version of Keras that setup.py allows; `make test` with the newest.
"""

from __future__ import annotations

from typing import Any

import keras


def moving_averages(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """The moving averages of an optimizer with `use_ema`, one per trainable variable, in order."""
    averages: list[Any] = optimizer._model_variables_moving_average
    return averages


def variable_index(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """The index of a variable, or of a replica's copy of it, in the optimizer's variables."""
    index: int = optimizer._get_variable_index(variable)
    return index


def adam_moments(optimizer: keras.optimizers.Adam, variable: Any) -> tuple[Any, Any]:
    """Adam's first and second moment of a variable, as TensorFlow variables.

    Args:
        optimizer: the optimizer.
        variable: the variable, or a replica's copy of it.
    """
    index = variable_index(optimizer, variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


class LeanMovingAverages:
    """A mixin for Keras optimizers: moving averages of the weights with less temporary memory.

    Keras computes `momentum * average + (1 - momentum) * weight`, with two temporary tensors of the
    size of the weight. This class subtracts `(1 - momentum) * (average - weight)` from the average,
    with one. Both are equal up to rounding.
    """

    iterations: Any
    use_ema: bool
    ema_momentum: float
    _model_variables_moving_average: list[Any]

    def _update_model_variables_moving_average(self, trainable_variables: list[Any]) -> None:
        if not self.use_ema:
            return
        for weight, average in zip(
            trainable_variables, self._model_variables_moving_average, strict=True
        ):
            if average is not None:
                # The average starts with the weights after the first update.
                is_later = keras.ops.cast(self.iterations > 0, average.dtype)
                difference = keras.ops.subtract(average, weight)
                average.assign_sub((1 - self.ema_momentum * is_later) * difference)


def added_losses(model: keras.Model) -> list[Any]:
    """The losses of `add_loss` in the last forward pass, scaled for replicas as Keras does."""
    return [model._aggregate_additional_loss(loss) for loss in model.losses]


def skip_build_step(model: keras.Model) -> None:
    """Makes `fit` build only the optimizer of a model that is already built.

    With several replicas, the build step of `fit` averages their batches. That turns ids into
    floats, and fails if the batches have different numbers of titles. It also consumes a batch,
    which is not trained on. The loss and metrics of this package have no variables to build.
    """

    def build(**_: Any) -> None:
        if not model.optimizer.built:
            with model.distribute_strategy.scope():
                model.optimizer.build(model.trainable_variables)

    model._maybe_symbolic_build = build
