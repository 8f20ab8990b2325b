"""How far something long is: bars on a terminal; elsewhere, now and then, a line with the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, strftime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Told = Callable[[int, int], object]
"""Told how many steps of how many are done."""

_WIDTH = 24  # of a bar, in characters


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

    def _begin(self, first: float) -> None:
        """Starts the clock by which the time left is told: another count has begun."""
        self._counted, self._first, self._begun = self.total, first, monotonic()


class Progress:
    """Shows tasks, several at a time, from `start` to `stop`.

    Where the console is no terminal, a line with the time of day tells of all tasks, at most
    one in `EVERY` seconds, and none of what is over within `PATIENCE` seconds. Lines go to the
    error stream rather than among the results on standard output.

    Args:
        console: where to show them; None shows nothing.
    """

    EVERY = 20.0
    PATIENCE = 10.0
    _last_line = -EVERY  # of any progress of this process: of many short ones some are told

    def __init__(self, console: Console | None) -> None:
        self._tasks: list[Task] = []
        self._live: Any = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._console = console

    def start(self) -> Progress:
        """Begins to show."""
        console = self._console
        if console is None or console.quiet:
            return self
        if not console.is_terminal and console.file is sys.stdout:
            from rich.console import Console

            self._console = console = Console(stderr=True)
        if console.is_terminal:
            from rich.live import Live

            self._live = Live(console=console, get_renderable=self._bars, transient=True)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._tell, args=(console,), daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Takes the bars away."""
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()
        self._live = self._thread = None

    def __enter__(self) -> Progress:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add(self, task: Task) -> Task:
        """Shows a task from now on."""
        self._tasks.append(task)
        return task

    def remove(self, task: Task) -> None:
        """Shows a task no longer."""
        self._tasks.remove(task)

    def _bars(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        for task in list(self._tasks):
            bar = ProgressBar(task.total, task.done, width=_WIDTH)
            table.add_row(Text(task.name), bar, Text(task.text(), no_wrap=True))
        return table

    def _tell(self, console: Console) -> None:
        wait = self.PATIENCE
        while not self._ended.wait(wait):
            now = monotonic()
            wait = Progress._last_line + self.EVERY - now
            if wait > 0:
                continue
            if not self._tasks:
                wait = self.PATIENCE
                continue
            Progress._last_line, wait = now, self.EVERY
            tasks = "; ".join(f"{task.name}: {task.text()}" for task in list(self._tasks))
            line = f"{strftime('%H:%M:%S')} {tasks}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_of(
    name: str,
    total: float | None,
    to: Console | Told | bool | None,
    unit: str = "steps",
    state: str | Callable[[], str] = "",
) -> Iterator[Task]:
    """Shows one task until the block ends.

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
    if callable(to):
        yield Task(name, total, unit, state, told=to)
        return
    with Progress(to or None) as progress:
        yield progress.add(Task(name, total, unit, state))


def _clock(seconds: float) -> str:
    """`0:07`, `12:30` or `1:02:03`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02.0f}" if hours else f"{minutes}:{seconds:02.0f}"
