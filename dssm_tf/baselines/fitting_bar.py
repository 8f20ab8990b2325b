"""What a person sees while a baseline is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Told = Callable[[int, int], object]
"""Told how many steps of how many are done."""


@contextmanager
def fitting_bar(
    name: str, steps: int, progress: bool | Told
) -> Iterator[Callable[[int, str], None]]:
    """A bar on the error stream; gives a function that moves it and says how it goes.

    Args:
        name: what is fitted.
        steps: of the whole bar.
        progress: false for no bar; a function is told the steps instead.
    """
    if callable(progress):

        def tell(done: int, state: str = "") -> None:
            progress(done, steps)

        yield tell
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[state]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not progress,
    ) as bar:
        task = bar.add_task(name, total=steps, state="")

        def advance(done: int, state: str = "") -> None:
            bar.update(task, completed=done, state=state)

        yield advance
