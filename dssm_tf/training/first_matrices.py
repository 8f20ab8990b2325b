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


def importance_matrices(model: Siamese) -> list[Any]:
    """The importance of n-grams `(1 + n-grams, 2)`, if the score has it."""
    return [model.score.importance] if isinstance(model.score, MaxSim) else []


def weights_with_changed_first_matrices(
    model: Siamese, change: Change
) -> list[NDArray[np.float32]]:
    """The weights of a model, with `change` applied to its first matrices."""
    return weights_with_change(model, first_matrices(model), change)


def weights_with_change(
    model: Siamese, matrices: Sequence[Any], change: Change
) -> list[NDArray[np.float32]]:
    """The weights of a model, with `change` applied to some of them."""
    values = []
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        if any(weight is matrix for matrix in matrices):
            value = change(value).astype(value.dtype)
        values.append(value)
    return values
