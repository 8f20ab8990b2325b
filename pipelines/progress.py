"""How far a local run is: workers append counts to small files, the launcher adds them up."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.common.progress import Task, progress_of

if TYPE_CHECKING:  # the launcher's; workers do without it
    from rich.console import Console


class Progress:
    """Counts that workers of this machine report; does nothing for workers elsewhere.

    Args:
        directory: where to report, or None.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._counts: dict[str, int] = {}
        self._written = 0.0

    def __reduce__(self) -> tuple[type, tuple[str | None]]:
        return Progress, (self._directory,)

    def add(self, name: str, number: int) -> None:
        """Reports that `number` more are done."""
        if self._directory is None:
            return
        self._counts[name] = self._counts.get(name, 0) + number
        path = Path(self._directory) / f"{name}.{os.getpid()}.{id(self)}"
        try:
            path.write_text(str(self._counts[name]), "ascii")
        except OSError:
            self._directory = None  # the launcher is gone or has finished

    @staticmethod
    def total(directory: str) -> dict[str, int]:
        """The sums over all workers, by name."""
        totals: dict[str, int] = {}
        for path in Path(directory).iterdir():
            name = path.name.split(".")[0]
            try:
                totals[name] = totals.get(name, 0) + int(path.read_text("ascii") or 0)
            except (OSError, ValueError):
                continue
        return totals


def showing(directory: str, console: Console) -> AbstractContextManager[Task]:
    """Shows what the workers report in a directory, while a block runs."""

    def state() -> str:
        totals = Progress.total(directory)
        return ", ".join(
            f"{totals[name]:,} {name}"
            for name in ("rows read", "records written")
            if name in totals
        )

    return progress_of("preprocess", None, console, unit="", state=state)


def quiet_console() -> Console:
    """The console for progress and summaries: standard error, so that output stays pipeable."""
    from rich.console import Console

    return Console(file=sys.stderr, soft_wrap=True)
