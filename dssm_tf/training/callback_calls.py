"""Calls Keras callbacks from the training loop, as Keras's `fit` calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from dssm_tf.training.checkpoint import Checkpoint
from dssm_tf.training.progress_lines import ProgressLines

_TRAIN_BATCH_METHODS = (
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_batch_begin",
    "on_batch_end",
)
_TEST_BATCH_METHODS = ("on_test_batch_begin", "on_test_batch_end")


class CallbackCalls:
    """Calls the methods of several Keras callbacks, as `keras.callbacks.CallbackList` does.

    Differs from `CallbackList` by the logs of a batch. `Checkpoint` and `ProgressLines` get the
    loss as a tensor, so that no step waits for the device. Other callbacks get a float, and are
    called after a batch only if they override a method for batches.

    Args:
        callbacks: the callbacks, in the order in which they are called.
        model: the compiled model in training.
        epochs: maximum number of epochs.
        steps: batches per epoch.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: keras.Model,
        epochs: int,
        steps: int,
    ) -> None:
        self._callbacks = callbacks
        for callback in callbacks:
            callback.set_model(model)
            callback.set_params({"epochs": epochs, "steps": steps, "verbose": 0})
        tensor_types = (Checkpoint, ProgressLines)
        self._tensor_callbacks = [
            callback for callback in callbacks if isinstance(callback, tensor_types)
        ]
        others = [callback for callback in callbacks if not isinstance(callback, tensor_types)]
        self._train_batch_callbacks = [
            callback for callback in others if _overrides_any(callback, _TRAIN_BATCH_METHODS)
        ]
        self._test_batch_callbacks = [
            callback for callback in others if _overrides_any(callback, _TEST_BATCH_METHODS)
        ]

    def on_train_begin(self) -> None:
        """Training begins."""
        for callback in self._callbacks:
            callback.on_train_begin({})

    def on_train_end(self, logs: dict[str, float]) -> None:
        """Training ends, with the logs of the last epoch."""
        for callback in self._callbacks:
            callback.on_train_end(logs)

    def on_epoch_begin(self, epoch: int) -> None:
        """An epoch begins."""
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch, {})

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        """An epoch ends; callbacks read its logs and may add to them."""
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, logs)

    def on_train_batch_begin(self, step: int) -> None:
        """A training step begins."""
        for callback in self._train_batch_callbacks:
            callback.on_train_batch_begin(step, {})

    def on_train_batch_end(self, step: int, loss: Any) -> None:
        """A training step ends, with its loss, a scalar tensor."""
        if self._train_batch_callbacks:
            logs = {"loss": float(loss)}
            for callback in self._train_batch_callbacks:
                callback.on_train_batch_end(step, logs)
        for callback in self._tensor_callbacks:
            callback.on_train_batch_end(step, {"loss": loss})

    def on_test_begin(self) -> None:
        """The validation batches begin."""
        for callback in self._callbacks:
            callback.on_test_begin({})

    def on_test_end(self, logs: dict[str, float]) -> None:
        """The validation batches end, with their metrics."""
        for callback in self._callbacks:
            callback.on_test_end(logs)

    def on_test_batch_begin(self, step: int) -> None:
        """A validation batch begins."""
        for callback in self._test_batch_callbacks:
            callback.on_test_batch_begin(step, {})

    def on_test_batch_end(self, step: int, loss: Any) -> None:
        """A validation batch ends, with its loss, a scalar tensor."""
        if self._test_batch_callbacks:
            logs = {"loss": float(loss)}
            for callback in self._test_batch_callbacks:
                callback.on_test_batch_end(step, logs)


def _overrides_any(callback: keras.callbacks.Callback, names: Sequence[str]) -> bool:
    """Whether a callback overrides one of these methods, in its class or by an attribute.

    `keras.callbacks.LambdaCallback` has attributes.
    """
    base = keras.callbacks.Callback
    return any(
        getattr(getattr(callback, name), "__func__", None) is not getattr(base, name)
        for name in names
    )
