"""What this package needs of Keras and Keras keeps to itself: all of it, in one place.

Keras may change any of this in any version; `make test-keras` runs the tests of this file, and of
what builds on it, on the lowest version that setup.py allows, `make test` on the newest.
"""

from __future__ import annotations

from typing import Any

import keras


def moving_averages(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """The averages that an optimizer with `use_ema` keeps, one a trainable variable, in order."""
    averages: list[Any] = optimizer._model_variables_moving_average
    return averages


def position(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """Which of the variables an optimizer was built on this one is, or is a replica's part of."""
    place: int = optimizer._get_variable_index(variable)
    return place


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
