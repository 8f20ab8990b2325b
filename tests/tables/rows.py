"""The rows of a click log, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from dssm_tf.tables.click_log import LogRow, log_blocks
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.lines import Table


def rows_of(table: Table) -> Iterator[LogRow | Reject]:
    """The good rows of each block, then its rejects."""
    for rows, rejects in log_blocks(table):
        yield from map(LogRow._make, zip(*(one.to_pylist() for one in rows), strict=True))
        yield from rejects
