"""The rows of tables, one by one."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dssm_tf.tables.click_log import SCHEMA, LogRow, read_logs, scan_log
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.read import Table


def rows_of(table: Table) -> Iterator[LogRow | Reject]:
    """The good rows of each block of a log, then its rejects."""
    for rows, rejects in scan_log(table):
        yield from log_rows(rows)
        yield from rejects


def log_rows(frame: pl.DataFrame) -> list[LogRow]:
    """The rows of a log's frame."""
    return [*map(LogRow._make, frame.select(*SCHEMA).iter_rows())]


def logged(*paths, **options) -> list[LogRow]:
    """The good rows of log files."""
    return log_rows(read_logs(paths, **options)[0])
