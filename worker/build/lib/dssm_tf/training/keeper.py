"""Keeps what a training run must not lose: the best weights, the history, a checkpoint."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.config import TrainingConfig
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.checkpoint import Checkpoint, put, state
from dssm_tf.training.keras_internals import moving_averages
from dssm_tf.training.optimizers import ScheduledNesterov
from dssm_tf.training.validation import ValidationTask, encoded

_STILL = 3
"""Epochs in a row whose validation loss does not change by a digit: no step changes the model."""


class Keeper(keras.callbacks.Callback):
    """After each epoch: ranks the validation queries, keeps the best, saves, may stop.

    Within an epoch it saves after every so many steps. When `fit` is called again, for the next
    stage, it puts back the state after the last epoch: the end of `fit` has put moving averages in
    the place of the weights.

    Args:
        config: what to monitor and how long to wait.
        task: the validation queries; None keeps the epoch with the lowest training loss.
        ranked: given the weights of the epoch to rank with.
        encode: of `ranked`.
        checkpoint: where the state goes.
        keep_last: keeps the last epoch instead of the best and never stops early.

    Attributes:
        best: weights of the best epoch.
        best_epoch: its number, from 1.
        history: metrics of each epoch.
        step: steps done of the epoch in which a resumed run goes on.
    """

    def __init__(
        self,
        config: TrainingConfig,
        task: ValidationTask | None,
        ranked: Siamese,
        encode: Encoder,
        checkpoint: Checkpoint,
        keep_last: bool = False,
    ) -> None:
        super().__init__()
        self._config = config
        self._keep_last = keep_last
        self._task = task
        self._ranked = ranked
        self._encode = encode
        self._checkpoint = checkpoint
        self.best: list[np.ndarray] = []
        self.history: list[dict[str, float]] = []
        self.best_epoch = self.step = 0
        self._sums: list[np.ndarray] = []
        self._state: list[np.ndarray] = []

    @property
    def finished(self) -> bool:
        """Whether patience ran out."""
        waited = len(self.history) - self.best_epoch
        return bool(self.history) and waited >= self._config.patience

    def resume(self, model: Siamese) -> int:
        """Restores what was saved last; returns how many epochs are done."""
        if (restored := self._checkpoint.restore(model)) is not None:
            self.best, progress = restored
            self.history, self.best_epoch, self.step = progress.values()
            self._sums = [np.asarray(one) for one in model.metrics_variables]
        return len(self.history)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Resumes after the last epoch."""
        if self._state:
            put(state(self.model), self._state)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Puts the metrics of a resumed epoch back, which Keras has just set to 0."""
        if self.step:
            put(self.model.metrics_variables, self._sums)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves after every so many steps."""
        done = self.step + batch + 1
        if done % self._config.save_every == 0 and batch + 1 < self.params["steps"]:
            self._save(done)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measures, keeps, saves; stops if an update broke loss or weights, or nothing learns.

        Raises:
            UserError: the epoch's loss or a weight is not a finite number, there is no loss to
                begin with, or the model stands still.
        """
        logs = logs if logs is not None else {}
        self._refuse_broken(float(logs["loss"]))
        weights = self.weights_of(self.model)
        put(self._ranked.weights, weights)
        if self._task is not None:
            logs.update(self._task.measured(encoded(self._encode, self._task)))
        self.history.append({name: float(value) for name, value in logs.items()})
        if self._is_best():
            self.best_epoch, self.best = len(self.history), weights
        self._refuse_standing_still()
        logs["best"] = float(self.best_epoch == len(self.history))
        self.step = 0
        self._save(0)
        if self.finished:
            self.model.stop_training = True

    def _save(self, step: int) -> None:
        progress = {"history": self.history, "best_epoch": self.best_epoch, "step": step}
        self._state = self._checkpoint.save(self.model, self.best, progress)

    def _refuse_broken(self, loss: float) -> None:
        epoch = len(self.history) + 1
        broken = [] if np.isfinite(loss) else [f"the loss became {loss}"]
        broken += [
            f"{weight.path} is not a finite number"
            for weight in self.model.trainable_variables
            if not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
        ]
        if broken:
            kept = f" Epoch {epoch - 1} is kept." if self.history else ""
            raise UserError(
                f"{broken[0]} in epoch {epoch}; lower optimizer.learning_rate, or set "
                f"optimizer.clip_norm.{kept}"
            )
        if loss == 0 and epoch == 1 and not self._keep_last:
            raise UserError(
                "the loss is 0 in epoch 1: no click has a negative to be told from, so there is "
                "nothing to learn; set negatives.in_batch=true or negatives.fresh=4, or run "
                "preprocess so that it records negatives."
            )

    def _refuse_standing_still(self) -> None:
        last = [epoch.get("val_loss") for epoch in self.history[-_STILL:]]
        if len(last) == _STILL and last[0] is not None and len(set(last)) == 1:
            raise UserError(
                f"the model stands still: its validation loss is {last[0]:.6g} to the last digit "
                f"after each of the last {_STILL} epochs; optimizer.learning_rate is far too "
                "large, or far too small."
            )

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
        if not self.best_epoch or self._keep_last:
            return True
        now, best = self.history[-1], self.history[self.best_epoch - 1]
        if self._task is None:
            return now["loss"] < best["loss"]
        if self._config.monitor == "loss":
            return now["val_loss"] < best["val_loss"]
        return now[self._config.monitor] > best[self._config.monitor]
