"""Limits the log of Beam, at its import and while a command runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

BEAM_LOG = logging.getLogger("apache_beam")


def load_beam() -> None:
    """Imports Beam without the warning on the root logger that its Google extra is missing."""
    root = logging.getLogger()
    root.addFilter(_is_not_about_google)
    try:
        import apache_beam  # noqa: F401
    finally:
        root.removeFilter(_is_not_about_google)


def _is_not_about_google(record: logging.LogRecord) -> bool:
    return "apitools not found" not in str(record.msg)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Inside the block, limits Beam's log to one line per retry of a failed request to a store.

    `DSSM_DEBUG=1` leaves the log unchanged.
    """
    if os.environ.get("DSSM_DEBUG"):
        yield
        return
    retries = BEAM_LOG.getChild("utils.retry")
    levels = {log: log.level for log in (BEAM_LOG, retries)}
    BEAM_LOG.setLevel("CRITICAL")
    retries.setLevel("WARNING")
    retries.addFilter(_keep_first_line)
    try:
        yield
    finally:
        retries.removeFilter(_keep_first_line)
        for log, level in levels.items():
            log.setLevel(level)


def _keep_first_line(record: logging.LogRecord) -> bool:
    record.msg, record.args = record.getMessage().partition("\n")[0], ()
    return True
