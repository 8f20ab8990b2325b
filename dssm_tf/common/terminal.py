"""Output of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO

_QUIET = ContextVar("quiet", default=False)


def say(*lines: str, to: IO[str] | None = None, result: bool = False) -> None:
    """Prints lines without any markup to standard output, or to another stream.

    Args:
        *lines: the lines.
        to: another stream.
        result: whether the lines are what the command was asked for; others are not printed inside
            `quiet_output`.
    """
    if is_quiet() and not result:
        return
    stream = to or sys.stdout
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()


def is_quiet() -> bool:
    """Whether progress and summaries are turned off, see `quiet_output`."""
    return _QUIET.get()


@contextmanager
def quiet_output(quiet: bool = True) -> Iterator[None]:
    """Turns off progress and summaries inside the block; results and errors remain.

    Args:
        quiet: False changes nothing.
    """
    token = _QUIET.set(quiet or is_quiet())
    try:
        yield
    finally:
        _QUIET.reset(token)
