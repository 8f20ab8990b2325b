"""Progress of long tasks: a bar on a terminal, otherwise an occasional line with the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, strftime

from rich import progress
from rich.console import Console
from rich.table import Column
from rich.text import Text

from dssm_tf.common.terminal import is_quiet

State = str | Callable[[], str]

LINE_INTERVAL = 20.0
"""Minimum seconds between two lines, even of different tasks."""
FIRST_LINE_AFTER = 2.0
"""Seconds from the start of a task to its first line."""
_SPEED_PERIOD = 24 * 3600.0  # seconds over which rich averages the speed; longer than most tasks
_next_line_time = 0.0  # by the clock `time.monotonic`
_next_line_lock = threading.Lock()


class Task:
    """A task in progress.

    Args:
        bar: a bar that shows only this task.
        name: name of the task.
        total: the number of units to do; None if unknown.
        unit: plural of the counted unit, such as "steps"; empty to show no count.
        state: a short status, such as a loss; or a function that returns it, called only when the
            status is shown.
    """

    def __init__(
        self, bar: progress.Progress, name: str, total: float | None, unit: str, state: State
    ) -> None:
        self._bar = bar
        self._id = bar.add_task(name, total=total, unit=unit, state=state)

    @property
    def total(self) -> float | None:
        """The number of units to do; None if unknown."""
        return self._bar.tasks[0].total

    @property
    def done(self) -> float:
        """The number of units done."""
        return self._bar.tasks[0].completed

    def update(self, done: float, state: State = "") -> None:
        """Sets the number of units done, and the state."""
        self._bar.update(self._id, completed=done, state=state)

    def advance(self, count: float = 1, state: State = "") -> None:
        """Adds to the number of units done, and sets the state."""
        self._bar.update(self._id, advance=count, state=state)

    def line(self) -> str:
        """The task in one line: `bm25: 3 of 12 queries, 00:20, 01:00 left, 0.5 nats`."""
        task = self._bar.tasks[0]
        return f"{task.description}: {_details(task)}"


class _DetailsColumn(progress.ProgressColumn):
    def render(self, task: progress.Task) -> Text:
        return Text(_details(task))


@contextmanager
def progress_of(
    name: str, total: float | None, show: bool = True, unit: str = "steps", state: State = ""
) -> Iterator[Task]:
    """Shows a task on the standard error stream until the block ends.

    A terminal shows a bar, which is erased at the end. Otherwise lines with the time of day are
    written, at most one per `LINE_INTERVAL` seconds for all tasks together. A task that ends within
    `FIRST_LINE_AFTER` seconds writes none.

    Args:
        name: name of the task.
        total: the number of units to do; None if unknown.
        show: whether to show the task.
        unit: plural of the counted unit, such as "steps"; empty to show no count.
        state: see `Task`.
    """
    on_terminal = sys.stderr.isatty()
    show = show and not is_quiet()
    bar = progress.Progress(
        progress.TextColumn("{task.description}:", markup=False),
        progress.BarColumn(bar_width=24),
        _DetailsColumn(Column(no_wrap=True)),
        console=Console(stderr=True),
        disable=not (show and on_terminal),
        redirect_stdout=False,  # results go to standard output, which may be a file
        refresh_per_second=5,
        speed_estimate_period=_SPEED_PERIOD,
        transient=True,
    )
    task = Task(bar, name, total, unit, state)
    with bar:
        if not show:
            yield task
        elif on_terminal:
            bar.console.show_cursor()  # rich hides it; a killed process would not restore it
            yield task
        else:
            with _periodic_lines(task):
                yield task


@contextmanager
def _periodic_lines(task: Task) -> Iterator[None]:
    """Writes progress lines until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=_write_lines, args=(task, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write_lines(task: Task, ended: threading.Event) -> None:
    wait = FIRST_LINE_AFTER
    while not ended.wait(wait):
        wait = _reserve_line()
        if wait == 0:
            sys.stderr.write(f"{strftime('%H:%M:%S')} {task.line()}\n")
            sys.stderr.flush()


def _reserve_line() -> float:
    """Seconds to wait before a line may be written; 0 if the caller may write one now."""
    global _next_line_time
    with _next_line_lock:
        now = monotonic()
        if now < _next_line_time:
            return _next_line_time - now
        _next_line_time = now + LINE_INTERVAL
        return 0.0


def _details(task: progress.Task) -> str:
    """Count, times and state: `3 of 12 queries, 00:20, 01:00 left, 0.5 nats`."""
    total, unit, state = task.total, task.fields["unit"], task.fields["state"]
    details = []
    if unit and total is None:
        details.append(f"{task.completed:,.0f} {unit}")
    elif unit:
        details.append(f"{task.completed:,.0f} of {total:,.0f} {unit}")
    details.append(_clock(task.elapsed or 0))
    if task.time_remaining:
        details.append(f"{_clock(task.time_remaining)} left")
    details.append(state() if callable(state) else state)
    return ", ".join(detail for detail in details if detail)


def _clock(seconds: float) -> str:
    """Seconds as `01:30` or `2:00:00`."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
