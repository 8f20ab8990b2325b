"""Everything a training run needs to go on as if it had never stopped, in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write


class Checkpoint:
    """Weights, optimiser, random seeds, best weights and history after a finished epoch.

    One file, moved into place whole: whenever the process dies, the file of the last finished
    epoch is there and complete.

    Args:
        path: the `.npz` file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def save(self, model: keras.Model, best: list[np.ndarray], progress: dict[str, Any]) -> None:
        """Writes the state of a model and its training.

        Args:
            model: compiled and built.
            best: values of `model.weights` at the best epoch.
            progress: JSON-able: epochs done, history, best value and when.
        """
        arrays = {f"state_{i}": np.asarray(v) for i, v in enumerate(state(model))}
        arrays |= {f"best_{i}": value for i, value in enumerate(best)}
        arrays["progress"] = np.frombuffer(json.dumps(progress).encode(), np.uint8)
        with atomic_write(self.path, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def restore(self, model: keras.Model) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Puts a saved state back; None when there is none.

        Returns:
            The best weights and the progress.

        Raises:
            UserError: the file is damaged or of another model.
        """
        if not self.path.exists():
            return None
        again = "Remove the run's directory to start again."
        arrays = read_arrays(self.path, again)
        try:
            values = [arrays[f"state_{i}"] for i in range(len(state(model)))]
            best = [arrays[f"best_{i}"] for i in range(len(model.weights))]
            progress = json.loads(arrays["progress"].tobytes())
            if not 1 <= progress["best_epoch"] <= len(progress["history"]):
                raise ValueError("it has another best epoch than its history")
            put(state(model), values)
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.path} is not a checkpoint of this configuration ({error}). {again}"
            ) from None
        return best, progress


def state(model: keras.Model) -> list[Any]:
    """All that training changes: weights, random seeds and the optimizer's variables."""
    return [*model.variables, *model.optimizer.variables]


def put(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Gives each variable its value."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
