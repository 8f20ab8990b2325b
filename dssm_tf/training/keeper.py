"""Keeps what a training run must not lose: the best weights, the history, a checkpoint."""

from __future__ import annotations

import keras
import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.config import TrainingConfig
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.checkpoint import Checkpoint, put
from dssm_tf.training.keras_internals import moving_averages
from dssm_tf.training.optimizers import ScheduledNesterov
from dssm_tf.training.validation import ValidationTask, encoded


class Keeper:
    """After each epoch: ranks the validation queries, keeps the best weights, saves everything.

    Within an epoch it saves after every so many steps.

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
        self._config = config
        self._keep_last = keep_last
        self._task = task
        self._ranked = ranked
        self._encode = encode
        self._checkpoint = checkpoint
        self.best: list[np.ndarray] = []
        self.history: list[dict[str, float]] = []
        self.best_epoch = self.step = 0

    @property
    def finished(self) -> bool:
        """Whether patience ran out."""
        waited = len(self.history) - self.best_epoch
        return bool(self.history) and waited >= self._config.patience

    def resume(self, model: Siamese) -> None:
        """Restores what was saved last."""
        model.reset_metrics()
        if (restored := self._checkpoint.restore(model)) is not None:
            self.best, progress = restored
            self.history, self.best_epoch, self.step = progress.values()

    def after_step(self, model: Siamese, done: int, steps: int) -> None:
        """Saves after every so many steps of an epoch."""
        if done % self._config.save_every == 0 and done < steps:
            self._save(model, done)

    def after_epoch(self, model: Siamese, logs: dict[str, float]) -> None:
        """Measures, keeps, saves; stops if an update broke loss or weights.

        Args:
            model: what is trained.
            logs: metrics of the epoch, to which others are added.

        Raises:
            UserError: the epoch's loss or a weight is not a finite number, or there is no loss
                to begin with.
        """
        self._refuse_broken(model, logs["loss"])
        weights = self.weights_of(model)
        put(self._ranked.weights, weights)
        if self._task is not None:
            logs.update(self._task.measured(encoded(self._encode, self._task)))
        self.history.append(dict(logs))
        if self._is_best():
            self.best_epoch, self.best = len(self.history), weights
        logs["best"] = float(self.best_epoch == len(self.history))
        model.reset_metrics()
        self.step = 0
        self._save(model, 0)

    def _save(self, model: Siamese, step: int) -> None:
        progress = {"history": self.history, "best_epoch": self.best_epoch, "step": step}
        self._checkpoint.save(model, self.best, progress)

    def _refuse_broken(self, model: Siamese, loss: float) -> None:
        epoch = len(self.history) + 1
        broken = [] if np.isfinite(loss) else [f"the loss became {loss}"]
        broken += [
            f"{weight.path} is not a finite number"
            for weight in model.trainable_variables
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
