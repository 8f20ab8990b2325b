"""The private parts of Keras that this package uses, all in one place.

Keras may change them in any version. `make test-keras` runs the tests of this file, and of the code
that uses it, on the lowest Keras that setup.py allows; `make test` runs them on the newest.
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


def added_losses(model: keras.Model) -> list[Any]:
    """The losses that `add_loss` added in this forward pass, scaled for replicas as Keras does."""
    return [model._aggregate_additional_loss(loss) for loss in model.losses]


def build_nothing_more(model: keras.Model) -> None:
    """Tells `fit` that a model is built, and that its loss and metrics have no variables to make.

    Under a strategy of several devices `fit` builds them on the average of the replicas' batches,
    which turns ids to floats and fails where the replicas have different numbers of titles; for
    that it takes a batch that is then not trained on. The optimizer alone is built.
    """

    def build(**_: Any) -> None:
        if not model.optimizer.built:
            with model.distribute_strategy.scope():
                model.optimizer.build(model.trainable_variables)

    model._maybe_symbolic_build = build
