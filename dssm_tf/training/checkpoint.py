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
    """Weights, optimiser, random seeds, sums of metrics, best weights and history.

    One file, moved into place whole: whenever the process dies, the file of the last epoch, or
    of the last so many steps of one, is there and complete.

    Args:
        path: the `.npz` file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def save(
        self, model: keras.Model, best: list[np.ndarray], progress: dict[str, Any], write: bool
    ) -> None:
        """Writes the state of a model and its training.

        Args:
            model: compiled and built.
            best: values of `model.weights` at the best epoch; empty before the first has ended.
            progress: JSON-able: history, best epoch, steps done of the next one.
            write: whether this process does; each must read, since metrics are sums over all.
        """
        arrays = {f"state_{i}": np.asarray(v) for i, v in enumerate(_all(model))}
        arrays |= {f"best_{i}": value for i, value in enumerate(best)}
        arrays["progress"] = np.frombuffer(json.dumps(progress).encode(), np.uint8)
        if not write:
            return
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
            values = [arrays[f"state_{i}"] for i in range(len(_all(model)))]
            progress = json.loads(arrays["progress"].tobytes())
            done = len(progress["history"])
            if not min(1, done) <= progress["best_epoch"] <= done or progress["step"] < 0:
                raise ValueError("it has another best epoch than its history")
            best = [arrays[f"best_{i}"] for i in range(len(model.weights) if done else 0)]
            put(_all(model), values)
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.path} is not a checkpoint of this configuration ({error}). {again}"
            ) from None
        return best, progress


def state(model: keras.Model) -> list[Any]:
    """All that training changes: weights, random seeds and the optimizer's variables."""
    return [*model.variables, *model.optimizer.variables]


def _all(model: keras.Model) -> list[Any]:
    return [*state(model), *model.metrics_variables]


def put(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Gives each variable its value."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
