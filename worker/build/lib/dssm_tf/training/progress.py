"""What a person sees while a model trains."""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic
from typing import Any

import keras
from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.training.validation import with_intervals


class TrainingProgress(keras.callbacks.Callback):
    """How far the running epoch is, and one line for each finished one.

    Args:
        steps: batches an epoch.
        epochs: epochs at most.
        quiet: prints nothing.
    """

    def __init__(self, steps: int, epochs: int, quiet: bool = False) -> None:
        super().__init__()
        self._steps = steps
        self._epochs = epochs
        self._console = Console(quiet=quiet)
        self._bar = ExitStack()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts the epoch's bar."""
        self._started = monotonic()
        shown = progress_of(f"epoch {epoch + 1}/{self._epochs}", self._steps, self._console)
        self._task = self._bar.enter_context(shown)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Counts the step."""
        # Read when it is shown: a device need not be waited for after each step.
        self._task.advance(state=lambda: f"loss {float((logs or {})['loss']):.4f}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Replaces the bar by a line that stays."""
        self.stop()
        logs = logs or {}
        parts = [f"epoch {epoch + 1:>3}/{self._epochs}", f"loss {logs['loss']:.4f}"]
        if "val_loss" in logs:
            parts.append(f"validation loss {logs['val_loss']:.4f}")
        if "ndcg@1" in logs:
            parts.append(with_intervals(logs))
        parts.append(f"{monotonic() - self._started:.1f} s")
        mark = " [green]best[/green]" if logs.get("best") else ""
        self._console.print(" · ".join(parts) + mark, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Takes the bar away; also after an error."""
        self._bar.close()
