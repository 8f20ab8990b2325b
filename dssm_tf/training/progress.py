"""What a person sees while a model trains."""

from __future__ import annotations

from time import monotonic
from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class TrainingProgress(keras.callbacks.Callback):
    """A bar for the running epoch and one line for each finished one.

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
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._started = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts the epoch's bar."""
        self._started = monotonic()
        self._progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._progress.start()
        description = f"epoch {epoch + 1}/{self._epochs}"
        self._task = self._progress.add_task(description, total=self._steps, loss="-")

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Moves the bar."""
        if self._progress is not None and self._task is not None:
            loss = f"{float((logs or {}).get('loss', float('nan'))):.4f}"
            self._progress.update(self._task, advance=1, loss=loss)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Replaces the bar by a line that stays."""
        self.stop()
        logs = logs or {}
        parts = [f"epoch {epoch + 1:>3}/{self._epochs}", f"loss {logs['loss']:.4f}"]
        if "val_loss" in logs:
            parts.append(f"validation loss {logs['val_loss']:.4f}")
        if "ndcg@1" in logs:
            values = "/".join(f"{logs[f'ndcg@{k}']:.3f}" for k in (1, 3, 10))
            parts.append(f"NDCG@1/3/10 {values}")
        parts.append(f"{monotonic() - self._started:.1f} s")
        mark = " [green]best[/green]" if logs.get("best") else ""
        self._console.print(" · ".join(parts) + mark, highlight=False, soft_wrap=True)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Leaves the terminal as it was."""
        self.stop()

    def stop(self) -> None:
        """Takes the bar away; also after an error."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
