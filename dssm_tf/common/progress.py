"""How far something long is: a bar on a terminal; elsewhere, now and then, a line with the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, strftime
from typing import IO

from tqdm import tqdm

EVERY, PATIENCE = 20.0, 10.0  # seconds between lines, and before the first
_REFRESH = 0.2  # seconds between two states of a bar
_last_line = -EVERY


@dataclass
class Task:
    """Something that is being done.

    Attributes:
        name: what it is called.
        total: how much there is to do; None where nobody knows.
        unit: what is counted; empty to show no count.
        state: how it goes; a function is called whenever that is shown.
        done: how much of `total` is done.
    """

    name: str
    total: float | None = None
    unit: str = "steps"
    state: str | Callable[[], str] = ""
    done: float = 0.0

    def __post_init__(self) -> None:
        self._started = monotonic()

    def update(self, done: float, state: str | Callable[[], str] = "") -> None:
        """Says how much is done, and how it goes."""
        self.done, self.state = done, state

    def advance(self, more: float = 1, state: str | Callable[[], str] = "") -> None:
        """Says that more is done."""
        self.update(self.done + more, state)

    def text(self, bar: str = "") -> str:
        """Name, count, time and state, as in `bm25: 3 of 12 queries, 00:20, 01:00 left`.

        Args:
            bar: what tqdm draws after the name, such as `{bar:24} `.
        """
        total = "" if self.total is None else f" of {self.total:,.0f}"
        count = f"{self.done:,.0f}{total} {self.unit}, " if self.unit else ""
        left = ", {remaining} left" if self.total and self.done else ""
        made: str = tqdm.format_meter(
            self.done, self.total, monotonic() - self._started, prefix=self.name,
            postfix=self.state() if callable(self.state) else self.state,
            bar_format=f"{{desc}}: {bar if self.total else ''}{count}{{elapsed}}{left}{{postfix}}",
        )  # fmt: skip
        return made


@contextmanager
def progress_of(
    name: str,
    total: float | None,
    show: bool = True,
    unit: str = "steps",
    state: str | Callable[[], str] = "",
) -> Iterator[Task]:
    """Shows a task on the error stream until the block ends.

    On a terminal it is a bar. Elsewhere a line with the time of day is written now and then: one in
    `EVERY` seconds, whatever the number of tasks, and none of what is over within `PATIENCE`
    seconds.

    Args:
        name: what is done.
        total: how much there is to do; None where nobody knows.
        show: whether to show it.
        unit: what is counted; empty to show no count.
        state: how it goes, see `Task`.
    """
    task = Task(name, total, unit, state)
    if not show:
        yield task
        return
    ended = threading.Event()
    draw = _draw if sys.stderr.isatty() else _log
    thread = threading.Thread(target=draw, args=(task, sys.stderr, ended), daemon=True)
    thread.start()
    try:
        yield task
    finally:
        ended.set()
        thread.join()


def _draw(task: Task, stream: IO[str], ended: threading.Event) -> None:
    """A bar on a terminal, of which nothing is left in the end."""
    while not ended.wait(_REFRESH):
        stream.write(f"\r\x1b[2K{task.text('{bar:24} ')}")
        stream.flush()
    stream.write("\r\x1b[2K")
    stream.flush()


def _log(task: Task, stream: IO[str], ended: threading.Event) -> None:
    """Lines in a log, few for all tasks together."""
    global _last_line
    wait = PATIENCE
    while not ended.wait(wait):
        now = monotonic()
        wait = _last_line + EVERY - now
        if wait <= 0:
            _last_line, wait = now, EVERY
            stream.write(f"{strftime('%H:%M:%S')} {task.text()}\n")
            stream.flush()
