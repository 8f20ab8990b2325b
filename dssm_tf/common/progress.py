"""How far something long is: bars on a terminal; elsewhere, now and then, a line with the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, strftime
from typing import IO, TYPE_CHECKING

from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Told = Callable[[int, int], object]
"""Told how many steps of how many are done."""

_WIDTH = 24  # of a bar, in characters
EVERY = 20.0
PATIENCE = 10.0
_last_line = -EVERY


@dataclass
class Task:
    """Something that is being done.

    Attributes:
        name: what it is called.
        total: how much there is to do; None where nobody knows.
        unit: what is counted; empty to show no count.
        state: how it goes; a function is asked whenever that is shown.
        told: told how much is done.
        done: how much of `total` is done.
    """

    name: str
    total: float | None = None
    unit: str = "steps"
    state: str | Callable[[], str] = ""
    told: Told | None = None
    done: float = 0.0

    def __post_init__(self) -> None:
        self._started = monotonic()
        self._begin(self.done)

    def update(self, done: float, state: str | Callable[[], str] = "") -> None:
        """Says how much is done, and how it goes."""
        if done < self.done or self.total != self._counted:
            self._begin(done)
        self.done, self.state = done, state
        if self.told is not None:
            self.told(int(done), int(self.total or 0))

    def advance(self, more: float = 1, state: str | Callable[[], str] = "") -> None:
        """Says that more is done."""
        self.update(self.done + more, state)

    def text(self) -> str:
        """Count, state and time, as in `3 of 12 queries, 0:20, 1:00 left`."""
        parts = []
        if self.unit:
            total = "" if self.total is None else f" of {self.total:,.0f}"
            parts.append(f"{self.done:,.0f}{total} {self.unit}")
        if state := self.state() if callable(self.state) else self.state:
            parts.append(state)
        now = monotonic()
        parts.append(_clock(now - self._started))
        if self.total and self._first < self.done < self.total:
            each = (now - self._begun) / (self.done - self._first)
            parts.append(f"{_clock(each * (self.total - self.done))} left")
        return ", ".join(parts)

    def bar(self) -> Table:
        """The task on a terminal."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        bar = ProgressBar(self.total, self.done, width=_WIDTH)
        table.add_row(Text(self.name), bar, Text(self.text(), no_wrap=True))
        return table

    def _begin(self, first: float) -> None:
        """Starts the clock by which the time left is told: another count has begun."""
        self._counted, self._first, self._begun = self.total, first, monotonic()


@contextmanager
def progress_of(
    name: str,
    total: float | None,
    to: Console | Told | bool | None,
    unit: str = "steps",
    state: str | Callable[[], str] = "",
) -> Iterator[Task]:
    """Shows a task until the block ends.

    On a terminal it is a bar. Elsewhere a line with the time of day is written now and then: one in
    `EVERY` seconds, whatever the number of tasks, and none of what is over within `PATIENCE`
    seconds. Lines go to the error stream rather than among the results on standard output.

    Args:
        name: what is done.
        total: how much there is to do; None where nobody knows.
        to: where to show it: a console, or true for the error stream; None and false show
            nothing; a function is told the steps instead.
        unit: what is counted; empty to show no count.
        state: how it goes, see `Task`.
    """
    if to is True:
        from rich.console import Console

        to = Console(stderr=True)
    if not to or callable(to) or to.quiet:
        yield Task(name, total, unit, state, told=to if callable(to) else None)
        return
    task = Task(name, total, unit, state)
    if to.is_terminal:
        from rich.live import Live

        with Live(console=to, get_renderable=task.bar, transient=True):
            yield task
        return
    ended = threading.Event()
    stream = sys.stderr if to.file is sys.stdout else to.file
    thread = threading.Thread(target=_tell, args=(task, stream, ended), daemon=True)
    thread.start()
    try:
        yield task
    finally:
        ended.set()
        thread.join()


def _tell(task: Task, stream: IO[str], ended: threading.Event) -> None:
    global _last_line
    wait = PATIENCE
    while not ended.wait(wait):
        now = monotonic()
        wait = _last_line + EVERY - now
        if wait <= 0:
            _last_line, wait = now, EVERY
            say(f"{strftime('%H:%M:%S')} {task.name}: {task.text()}", to=stream)


def _clock(seconds: float) -> str:
    """`0:07`, `12:30` or `1:02:03`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02.0f}" if hours else f"{minutes}:{seconds:02.0f}"
