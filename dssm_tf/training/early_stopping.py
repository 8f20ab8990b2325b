"""A Keras callback that stores the best epoch's weights and stops early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import keras
import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.training.model_state import assign_all, ranking_weights


class BestWeights(keras.callbacks.Callback):
    """Stores the weights of the best epoch, and stops after `patience` epochs without a better one.

    Differs from `keras.callbacks.EarlyStopping` by the weights that it stores: those to rank with,
    which are moving averages if the optimizer has them. `Checkpoint` saves its state.

    Args:
        monitor: key of the logs, such as `ndcg@10`, which `RankingValidation` adds, or `val_loss`.
            None stores the weights of the last epoch.
        patience: number of epochs, at least 1; None never stops.
        restore: whether the model gets the best weights when training ends.
        mode: `max` if higher values are better, `min` if lower ones are. `auto` is `min` for keys
            that contain `loss` or `error`, and `max` for all others.

    Attributes:
        weights: weights of the best epoch, in the order of `model.weights`.
        best_epoch: number of the best epoch, from 1; 0 before the first one ended.
        history: the logs of each epoch.
    """

    def __init__(
        self,
        monitor: str | None = "ndcg@10",
        patience: int | None = None,
        restore: bool = True,
        mode: Literal["auto", "min", "max"] = "auto",
    ) -> None:
        super().__init__()
        if patience is not None and patience < 1:
            raise ValueError(f"BestWeights received patience={patience}; expected at least 1.")
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"BestWeights received mode={mode!r}; expected auto, min or max.")
        self.monitor = monitor
        self.patience = patience
        self.restore = restore
        self.mode = mode
        self._is_resuming = False
        self._reset()

    def _reset(self) -> None:
        self.weights: list[np.ndarray] = []
        self.best_epoch = 0
        self.history: list[dict[str, float]] = []

    def set_state(
        self, weights: list[np.ndarray], history: list[dict[str, float]], best_epoch: int
    ) -> None:
        """Sets the state from which the next training continues; `Checkpoint` calls it.

        Args:
            weights: weights of the best epoch.
            history: the logs of each epoch.
            best_epoch: number of the best epoch, from 1.
        """
        self.weights, self.history, self.best_epoch = weights, history, best_epoch
        self._is_resuming = True

    @property
    def patience_exhausted(self) -> bool:
        """Whether no epoch was better for `patience` epochs."""
        epochs_since_best = len(self.history) - self.best_epoch
        return (
            self.patience is not None and bool(self.history) and epochs_since_best >= self.patience
        )

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Resets the state, unless a training resumes; a training that had ended stops again."""
        del logs
        if not self._is_resuming:
            self._reset()
        self._is_resuming = False
        if self.patience_exhausted:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Stores the weights if the epoch is the best.

        Adds `best`, 1 or 0, to the logs if a metric is monitored.

        Raises:
            UserError: a weight is not a finite number, or the logs lack the monitored metric.
        """
        del epoch
        logs = {} if logs is None else logs
        if self.monitor is not None:
            monitored_value(logs, self.monitor, self.mode)  # raises if the metric is missing
        try:
            weights = ranking_weights(self.model)
        except UserError as error:
            raise UserError(
                f"epoch {len(self.history) + 1}: {error}{self._best_epoch_note()}"
            ) from None
        self.history.append(dict(logs))
        if self._last_is_best():
            self.best_epoch, self.weights = len(self.history), weights
        if self.monitor is not None:
            logs["best"] = float(self.best_epoch == len(self.history))
        if self.patience_exhausted:
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Assigns the best weights to the model."""
        del logs
        if self.restore and self.weights:
            assign_all(self.model.weights, self.weights)

    def _last_is_best(self) -> bool:
        if not self.best_epoch or self.monitor is None:
            return True
        best, last = self.history[self.best_epoch - 1], self.history[-1]
        return monitored_value(last, self.monitor, self.mode) > monitored_value(
            best, self.monitor, self.mode
        )

    def _best_epoch_note(self) -> str:
        """The end of an error message: the epoch from which a resumed training continues."""
        return f" Epoch {len(self.history)} is kept." if self.history else ""


def monitored_value(
    logs: Mapping[str, float], monitor: str, mode: Literal["auto", "min", "max"] = "auto"
) -> float:
    """The monitored metric of an epoch, negated if lower values are better.

    >>> monitored_value({"val_loss": 2.0}, "val_loss"), monitored_value({"ndcg@1": 0.5}, "ndcg@1")
    (-2.0, 0.5)

    Raises:
        UserError: the logs lack the metric.
    """
    if monitor not in logs:
        raise UserError(
            f"the logs of the epoch have no {monitor}, only {', '.join(logs) or 'nothing'}; put "
            "RankingValidation before BestWeights in the callbacks, or give validation data."
        )
    if mode == "auto":
        mode = "min" if "loss" in monitor or "error" in monitor else "max"
    return -logs[monitor] if mode == "min" else logs[monitor]
