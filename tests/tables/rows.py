"""Rows of files as tuples, and rows of click logs as named tuples."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dssm_tf.tables.click_log import SCHEMA, LogRow, read_logs, scan_log
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.read import Table, open_table, read


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


def read_cells(path, columns=("doc_id", "title"), layout=None):
    """The cells of some columns of a file, by row."""
    return read(path, [*map(unchanged, columns)], layout).select(columns).rows()


def numbered_cells(table, columns, strict=True):
    """Line numbers with cells or a reject, in the order of the file."""
    result = []
    for frame, rejects in table.scan([*map(unchanged, columns)], strict=strict):
        good = [(line, tuple(cells)) for *cells, line in frame.iter_rows()]
        result += sorted([*good, *((row.line, row) for row in rejects)], key=lambda row: row[0])
    return result


def cells_and_rejects(path, columns=("query", "title"), layout=None):
    """Line numbers with cells or a reject; bad rows are not errors."""
    with open_table(path, layout=layout) as table:
        return numbered_cells(table, columns, strict=False)
