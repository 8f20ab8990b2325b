"""Prints the output of commands, by its level."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO

DEBUG = "DSSM_DEBUG"
"""The environment variable that shows tracebacks and the messages of other libraries."""

_LEVEL = ContextVar("level", default=logging.INFO)  # a level of Python's logging


def say(*lines: str, to: IO[str] | None = None, level: int = logging.INFO) -> None:
    """Prints lines without any markup to standard output, or to another stream.

    Args:
        *lines: the lines.
        to: another stream.
        level: INFO for progress and summaries; WARNING for warnings, which are printed to standard
            error if summaries are not printed; `RESULT` for the result of the command.
    """
    if level < log_level():
        return
    if level == logging.WARNING and is_quiet():
        to = sys.stderr
    stream = to or sys.stdout
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()


RESULT = logging.CRITICAL
"""The level of results: they are always printed."""


def log_level() -> int:
    """The lowest level that is printed, see `output_of_level`."""
    return _LEVEL.get()


def is_quiet() -> bool:
    """Whether progress and summaries are turned off."""
    return log_level() > logging.INFO


@contextmanager
def output_of_level(name: str) -> Iterator[None]:
    """Sets the lowest level that is printed inside the block.

    Args:
        name: debug, info, warning or error. With debug, other libraries write their messages too,
            as with `DSSM_DEBUG=1`.
    """
    token = _LEVEL.set(logging.getLevelName(name.upper()))
    earlier = os.environ.get(DEBUG)
    if name == "debug":
        os.environ[DEBUG] = "1"
    try:
        yield
    finally:
        _LEVEL.reset(token)
        if name == "debug" and earlier is None:
            os.environ.pop(DEBUG, None)


@contextmanager
def quiet_output(quiet: bool = True) -> Iterator[None]:
    """Turns off progress and summaries inside the block; results and errors remain.

    Args:
        quiet: False changes nothing.
    """
    token = _LEVEL.set(max(log_level(), logging.WARNING) if quiet else log_level())
    try:
        yield
    finally:
        _LEVEL.reset(token)
