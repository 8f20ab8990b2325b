"""The matrices of a model that have one row per n-gram, and weights with changes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from dssm_tf.model.siamese import Siamese
from dssm_tf.scores import MaxSim

Change = Callable[[Any], NDArray[Any]]


def first_matrices(model: Siamese) -> list[Any]:
    """The first matrix of each tower, `(1 + n-grams, units)`."""
    return [tower.hashing.kernel for tower in (model.query_tower, model.title_tower)]


def hashing_matrices(model: Siamese) -> list[Any]:
    """The first matrix of each tower, and that of the text vectors if the score has them."""
    return [*first_matrices(model), *(layer.kernel for layer in model.score.hashings)]


def importance_matrices(model: Siamese) -> list[Any]:
    """The importance of n-grams `(1 + n-grams, 2)`, if the score has it, also in text vectors."""
    score = model.score
    if not isinstance(score, MaxSim):
        return []
    return [score.importance, *([score.text_importance] if score.text_cosine else [])]


def weights_with_changed_first_matrices(
    model: Siamese, values: Sequence[NDArray[np.float32]], change: Change
) -> list[NDArray[np.float32]]:
    """Weights of a model, with `change` applied to its first matrices.

    Args:
        model: the model.
        values: a value of each weight, in the order of `model.weights`. The result shares those
            that do not change.
        change: computes a changed matrix.
    """
    return weights_with_change(model, first_matrices(model), change, values)


def weights_with_change(
    model: Siamese,
    matrices: Sequence[Any],
    change: Change,
    values: Sequence[NDArray[np.float32]] | None = None,
) -> list[NDArray[np.float32]]:
    """Weights of a model, with `change` applied to some of them.

    Args:
        model: the model.
        matrices: the weights to change.
        change: computes a changed matrix.
        values: a value of each weight; None for the current ones.
    """
    if values is None:
        values = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
    return [
        change(value).astype(value.dtype) if any(weight is matrix for matrix in matrices) else value
        for weight, value in zip(model.weights, values, strict=True)
    ]
