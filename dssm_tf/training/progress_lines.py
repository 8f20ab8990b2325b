"""A Keras callback for the terminal: a progress bar, and one line per finished epoch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from time import monotonic
from types import TracebackType
from typing import Any

import keras
from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.training.validation import format_ndcg


class ProgressLines(keras.callbacks.Callback):
    """Shows a progress bar of the current epoch, and one line per finished epoch.

    It is a context manager; on exit it removes the bar, even after an error.

    Args:
        phase: name of the phase that the lines begin with, such as `fit`.
        steps: batches per epoch.
        epochs: maximum number of epochs.
        quiet: whether to print nothing.
    """

    def __init__(self, phase: str, steps: int, epochs: int, quiet: bool) -> None:
        super().__init__()
        self._phase = phase
        self._steps = steps
        self._epochs = epochs
        self._console = Console(quiet=quiet)
        self._bar = ExitStack()
        self._started = monotonic()

    def __enter__(self) -> ProgressLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Starts the bar."""
        del logs
        self._started = monotonic()
        bar = progress_of(
            f"{self._phase} epoch {epoch + 1}/{self._epochs}", self._steps, not self._console.quiet
        )
        self._task = self._bar.enter_context(bar)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Advances the bar."""
        del batch
        loss = (logs or {})["loss"]
        # Read only when it is displayed, so that no step waits for the device.
        self._task.advance(state=lambda: f"loss {float(loss):.4f}")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Replaces the bar by a line."""
        self._bar.close()
        logs = logs or {}
        parts = [f"{self._phase} epoch {epoch + 1:>3}/{self._epochs}", f"loss {logs['loss']:.4f}"]
        if "val_loss" in logs:
            parts.append(f"validation loss {logs['val_loss']:.4f}")
        if "ndcg@1" in logs:
            parts.append(format_ndcg(logs))
        parts.append(f"{monotonic() - self._started:.1f} s")
        mark = " [green]best[/green]" if logs.get("best") else ""
        self._console.print(" · ".join(parts) + mark, highlight=False, soft_wrap=True)
