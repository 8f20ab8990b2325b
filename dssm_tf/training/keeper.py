"""Keeps what a training run must not lose: the best weights, the history, a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.config import TrainingConfig
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.keras_internals import moving_averages
from dssm_tf.training.optimizers import ScheduledNesterov
from dssm_tf.training.validation import ValidationTask, encoded


@dataclass
class Keeper:
    """After each epoch: ranks the validation queries, keeps the best weights, saves everything.

    Within an epoch it saves after every so many steps.

    Args:
        config: what to monitor and how long to wait.
        task: the validation queries; None keeps the last epoch and never stops early.
        ranked: given the weights of the epoch to rank with.
        encode: of `ranked`.
        path: where the state goes.
        chief: whether this process writes it.
        best: weights of the best epoch.
        best_epoch: its number, from 1.
        history: metrics of each epoch.
        step: steps done of the epoch in which a resumed run goes on.
    """

    config: TrainingConfig
    task: ValidationTask | None
    ranked: Siamese
    encode: Encoder
    path: Path
    chief: bool
    best: list[np.ndarray] = field(default_factory=list)
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    step: int = 0

    @property
    def finished(self) -> bool:
        """Whether patience ran out."""
        waited = len(self.history) - self.best_epoch
        return bool(self.history) and waited >= self.config.patience

    def resume(self, model: Siamese) -> None:
        """Restores what was saved last."""
        model.reset_metrics()
        if (restored := restore(self.path, model)) is not None:
            self.best, progress = restored
            self.history, self.best_epoch, self.step = progress.values()

    def after_step(self, model: Siamese, done: int, steps: int) -> None:
        """Saves after every so many steps of an epoch."""
        if done % self.config.save_every == 0 and done < steps:
            self._save(model, done)

    def after_epoch(self, model: Siamese, logs: dict[str, float]) -> None:
        """Measures, keeps, saves; stops if an update broke the weights.

        Args:
            model: what is trained.
            logs: metrics of the epoch, to which others are added.

        Raises:
            UserError: a weight is not a finite number.
        """
        weights = self.weights_of(model)
        if not all(np.isfinite(one).all() for one in weights):
            raise UserError(
                f"a weight is not a finite number in epoch {len(self.history) + 1}; lower "
                "optimizer.learning_rate, or set optimizer.clip_norm."
                + (f" Epoch {len(self.history)} is kept." if self.history else "")
            )
        put(self.ranked.weights, weights)
        if self.task is not None:
            logs.update(self.task.measured(encoded(self.encode, self.task)))
        self.history.append(dict(logs))
        if self._is_best():
            self.best_epoch, self.best = len(self.history), weights
        logs["best"] = float(self.best_epoch == len(self.history))
        model.reset_metrics()
        self.step = 0
        self._save(model, 0)

    def _save(self, model: Siamese, step: int) -> None:
        progress = {
            "history": self.history,
            "best_epoch": self.best_epoch,
            "step": step,
        }
        save(self.path if self.chief else None, model, self.best, progress)

    @staticmethod
    def weights_of(model: Siamese) -> list[np.ndarray]:
        """The weights to rank with, all of which are trained.

        That is their moving averages, if there are any, and for Nesterov's method the point
        that was reached instead of the one it looks ahead to.
        """
        optimizer, weights = model.optimizer, model.weights
        if optimizer.use_ema:
            weights = moving_averages(optimizer)
        elif isinstance(optimizer, ScheduledNesterov):
            weights = optimizer.settled(weights)
        return [keras.ops.convert_to_numpy(weight) for weight in weights]

    def _is_best(self) -> bool:
        if not self.best_epoch or self.task is None:
            return True
        earlier = merit(self.history[self.best_epoch - 1], self.config.monitor)
        return merit(self.history[-1], self.config.monitor) > earlier


def merit(epoch: Mapping[str, float], monitor: str) -> float:
    """What the best epoch has most of.

    Args:
        epoch: its metrics.
        monitor: of `TrainingConfig`.
    """
    return -epoch["val_loss"] if monitor == "loss" else epoch[monitor]


def save(
    path: Path | None,
    model: keras.Model,
    best: list[np.ndarray],
    progress: dict[str, Any],
) -> None:
    """Writes weights, optimizer, random seeds, sums of metrics, best weights and progress.

    Differs from `keras.callbacks.BackupAndRestore`, which forgets dropout's seeds, the best weights
    and the history, and writes two files in place. This file is moved into place whole: whenever
    the process dies, that of the last epoch, or of the last so many steps of one, is complete.

    Args:
        path: the `.npz` file; None for a process that reads, as all do, but writes none: metrics
            are sums over all processes.
        model: compiled and built.
        best: values of `model.weights` at the best epoch; empty before the first has ended.
        progress: JSON-able: history, best epoch, steps done of the next one.
    """
    values = [np.asarray(one) for one in [*state(model), *model.metrics_variables]]
    if path is not None:
        with atomic_write(path, "wb") as file:
            np.savez(
                file,
                np.frombuffer(json.dumps(progress).encode(), np.uint8),
                *values,
                *best,
            )


def restore(path: Path, model: keras.Model) -> tuple[list[np.ndarray], dict[str, Any]] | None:
    """Puts a saved state back; None if there is none.

    Returns:
        The best weights and the progress.

    Raises:
        UserError: the file is damaged.
    """
    if not path.exists():
        return None
    arrays = read_arrays(path, "Remove the run's directory to start again.")
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
