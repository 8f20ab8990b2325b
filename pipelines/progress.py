"""How far a local run is: workers append counts to small files, the launcher adds them up."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

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


class ProgressDisplay:
    """A status line on the terminal while a local run works, from its third second on.

    Args:
        directory: where the workers report.
        console: where to show it.
    """

    def __init__(self, directory: str, console: Console) -> None:
        self._directory = directory
        self._console = console
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _show(self) -> None:
        start = time.monotonic()
        if self._stop.wait(2.0):
            return
        if not self._console.is_terminal:
            while not self._stop.wait(10.0):
                self._console.print(self._line(start), highlight=False)
            return
        with self._console.status(self._line(start)) as status:
            while not self._stop.wait(0.25):
                status.update(self._line(start))

    def _line(self, start: float) -> str:
        seconds = time.monotonic() - start
        totals = Progress.total(self._directory)
        parts = [
            f"{totals[name]:,} {name}"
            for name in ("rows read", "records written")
            if name in totals
        ]
        return f"preprocess: {seconds:.0f} s, {', '.join(parts) or 'starting'}"


def quiet_console() -> Console:
    """The console for progress and summaries: standard error, so that output stays pipeable."""
    from rich.console import Console

    return Console(file=sys.stderr, soft_wrap=True)
