"""Rows of click logs as named tuples."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dssm_tf.tables.click_log import SCHEMA, LogRow, read_logs, scan_log
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.read import Table


def table_rows(table: Table) -> Iterator[LogRow | Reject]:
    """Per block of a log: the good rows, then the rejects."""
    for rows, rejects in scan_log(table):
        yield from frame_rows(rows)
        yield from rejects


def frame_rows(frame: pl.DataFrame) -> list[LogRow]:
    """The rows of a log that was read as a data frame."""
    return [*map(LogRow._make, frame.select(*SCHEMA).iter_rows())]


def read_log_rows(*paths, **options) -> list[LogRow]:
    """The good rows of log files."""
    return frame_rows(read_logs(paths, **options)[0])
