"""Everything a training run needs to resume as if it had never stopped, in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.files import atomic_write


class Checkpoint:
    """Weights, optimizer, random seeds, sums of metrics, best weights and history.

    Differs from `keras.callbacks.BackupAndRestore`, which forgets dropout's seeds, the best
    weights and the history, and writes two files in place. This one is moved into place whole:
    whenever the process dies, that of the last epoch, or of the last so many steps of one, is
    complete.

    Args:
        path: the `.npz` file.
        chief: whether this process writes it.
    """

    def __init__(self, path: Path, chief: bool = True) -> None:
        self.path = path
        self._chief = chief

    def save(
        self, model: keras.Model, best: list[np.ndarray], progress: dict[str, Any]
    ) -> list[np.ndarray]:
        """Writes the state of a model and its training, and returns the values of `state`.

        Every process reads it, since metrics are sums over all of them.

        Args:
            model: compiled and built.
            best: values of `model.weights` at the best epoch; empty before the first has ended.
            progress: JSON-able: history, best epoch, steps done of the next one.
        """
        values = [np.asarray(one) for one in [*state(model), *model.metrics_variables]]
        if self._chief:
            with atomic_write(self.path, "wb") as file:
                np.savez(
                    file, np.frombuffer(json.dumps(progress).encode(), np.uint8), *values, *best
                )
        return values[: len(state(model))]

    def restore(self, model: keras.Model) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Puts a saved state back; None if there is none.

        Returns:
            The best weights and the progress.

        Raises:
            UserError: the file is damaged.
        """
        if not self.path.exists():
            return None
        arrays = read_arrays(self.path, "Remove the run's directory to start again.")
        progress, *values = arrays.values()
        variables = [*state(model), *model.metrics_variables]
        put(variables, values[: len(variables)])
        return values[len(variables) :], json.loads(progress.tobytes())


def state(model: keras.Model) -> list[Any]:
    """All that training changes: weights, random seeds and the optimizer's variables."""
    return [*model.variables, *model.optimizer.variables]


def put(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Gives each variable its value."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
