"""A Keras callback that saves the state of a training, so that it can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import keras
import numpy as np

from dssm_tf.common.arrays import read_one_by_one, write_arrays
from dssm_tf.common.files import atomic_write
from dssm_tf.training.early_stopping import BestWeights
from dssm_tf.training.model_state import ranking_weights, training_state

BYTES_PER_SECOND = 500_000
"""Mean rate at which a training writes large checkpoints."""

LONGEST_INTERVAL = 900.0
"""Seconds after which a checkpoint of any size is due."""

_SMALL = 1 << 20  # bytes of a checkpoint that is always written


class Checkpoint(keras.callbacks.Callback):
    """Saves the training state after each epoch, and every `save_every` steps within an epoch.

    The state is: weights, random seeds, the optimizer's variables, sums of metrics, the best
    epoch's weights unless they are those of the state, the history, and the step. The file is
    replaced atomically, so that a complete file exists after a kill at any moment. Differs from
    `keras.callbacks.BackupAndRestore`, which loses the seeds of dropout, the best weights and the
    history, and writes two files in place. The state of other callbacks is not saved.

    In a plain `fit`, put it last in the callbacks and call `restore` first:

        checkpoint = Checkpoint("state.npz", best_weights)
        checkpoint.restore(model)
        batches = data.training(epochs, initial_epoch=checkpoint.epoch)
        model.fit(batches, initial_epoch=checkpoint.epoch, ..., callbacks=[..., checkpoint])

    A plain `fit` starts at the beginning of an epoch, so leave out `save_every` there; `train`
    continues within an epoch.

    Args:
        path: the `.npz` file.
        best_weights: the callback whose state is saved too.
        save_every: steps between two saves within an epoch; None saves only after epochs.
        bytes_per_second: maximum mean rate of writing. A save is skipped if the bytes of the file,
            divided by the seconds since the last save, are above it, but not for longer than
            `LONGEST_INTERVAL`. A resumed training repeats the skipped steps, with the same result.
            Files below 1 MiB are always saved. None skips no save.
        write: whether this process writes the file. Of several processes, one writes it; all call
            this callback, because metrics are summed over the processes.

    Attributes:
        step: completed steps of the current epoch.
    """

    def __init__(
        self,
        path: Path | str,
        best_weights: BestWeights,
        save_every: int | None = None,
        bytes_per_second: float | None = None,
        write: bool = True,
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.best_weights = best_weights
        self.save_every = save_every
        self.bytes_per_second = bytes_per_second
        self.write = write
        self.step = 0
        self._stopped = False
        self._is_saved = True
        self._last_time = monotonic()

    @property
    def epoch(self) -> int:
        """Number of completed epochs."""
        return len(self.best_weights.history)

    def restore(self, model: keras.Model) -> bool:
        """Restores the saved state, if there is a file.

        Args:
            model: a compiled model.

        Returns:
            Whether there was a file.

        Raises:
            UserError: the file is damaged.
        """
        model.reset_metrics()
        if not self.path.exists():
            return False
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        arrays = read_one_by_one(self.path, "Remove the run's directory to start again.")
        values = (array for _, array in arrays)
        saved = json.loads(next(values).tobytes())
        variables = [*training_state(model), *model.metrics_variables]
        for variable, value in zip(variables, islice(values, len(variables)), strict=True):
            variable.assign(value)
        best = [*values]
        if saved["best_epoch"] and not best:  # the file has them as the current weights only
            best = ranking_weights(model)
        self.best_weights.set_state(best, saved["history"], saved["best_epoch"])
        self.step, self._stopped = saved["step"], saved["stopped"]
        return True

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Stops a resumed training that a callback had stopped."""
        del logs
        if self._stopped:
            self.model.stop_training = True

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves after every `save_every` steps, except after the last step of an epoch."""
        del logs
        self.step += 1
        ends_epoch = batch + 1 == (self.params or {}).get("steps")
        if self.save_every and self.step % self.save_every == 0 and not ends_epoch:
            self._save_if_due()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves the state at the end of the epoch."""
        del epoch, logs
        self.step = 0
        self._save_if_due()

    def save_skipped(self) -> None:
        """Saves the state if the last save was skipped, because a later `fit` continues from it."""
        if not self._is_saved:
            self._save()

    def _save_if_due(self) -> None:
        self._is_saved = False
        if self.bytes_per_second is not None:
            numbers = sum(math.prod(variable.shape) for variable in training_state(self.model))
            size = 4 * numbers
            interval = min(LONGEST_INTERVAL, size / self.bytes_per_second)
            if size > _SMALL and monotonic() - self._last_time < interval:
                return
        self._save()

    def _save(self) -> None:
        self._is_saved, self._last_time = True, monotonic()
        progress = {
            "history": self.best_weights.history,
            "best_epoch": self.best_weights.best_epoch,
            "step": self.step,
            "stopped": bool(self.model.stop_training) and self.step == 0,
        }
        variables = [*training_state(self.model), *self.model.metrics_variables]
        best = [] if self._best_is_current() else self.best_weights.weights
        if self.write:
            progress_bytes = np.frombuffer(json.dumps(progress).encode(), np.uint8)
            with atomic_write(self.path, "wb") as file:
                write_arrays(file, [progress_bytes, *variables, *best])
        else:
            for variable in variables:  # reading a metric sums it over all processes
                np.asarray(variable)

    def _best_is_current(self) -> bool:
        """Whether the best epoch's weights can be computed from the saved variables."""
        best = self.best_weights
        if self.step or not best.weights or best.best_epoch != len(best.history):
            return False
        current = ranking_weights(self.model)
        return all(map(np.array_equal, current, best.weights))
