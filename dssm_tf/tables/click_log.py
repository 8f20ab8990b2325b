"""Click logs: the columns `query` and `title`, and the optional columns of `LogRow`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.columns import CLICK_LOG, Column
from dssm_tf.tables.layout import Layout, Reject
from dssm_tf.tables.read import Table, open_table
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.tables.writer import write_table

REQUIRED = ("query", "title")
POSITION, TIMESTAMP = "position", "timestamp"
FILE = "file"
"""Column of frames with the file of each row."""
_RENAMED = {"session_id": "session"}


class LogRow(NamedTuple):
    """One good row of a log.

    Args:
        query: the query, without line breaks and without white space at the ends.
        title: the title, in the same form.
        clicks: number of clicks; 0 for an impression without a click.
        impressions: how often the title was displayed.
        session: the id of the session; empty if the log has none.
        timestamp: the timestamp of the log, empty where the log has none.
        position: position of the title in the list, from 1; 0 if it is unknown or not a whole
            number.
        doc_id: id of the title, empty where the log has none.
    """

    query: str
    title: str
    clicks: int = 1
    impressions: int = 0
    session: str = ""
    timestamp: str = ""
    position: int = 0
    doc_id: str = ""


SCHEMA = {
    name: pl.Int64() if type(default) is int else pl.String()
    for name, default in zip(LogRow._fields, LogRow("", ""), strict=True)
}
"""The columns of a log's frame."""


def log_frame(rows: Iterable[LogRow]) -> pl.DataFrame:
    """Rows as a frame with the columns of `SCHEMA`."""
    return pl.DataFrame([*rows], SCHEMA, orient="row")


def log_columns(*required: str) -> list[Column]:
    """The columns of a log.

    Args:
        *required: columns that are required besides query and title.
    """
    return [
        replace(column, required=column.required or column.name in required) for column in CLICK_LOG
    ]


def scan_log(table: Table) -> Iterator[tuple[pl.DataFrame, list[Reject]]]:
    """Yields the good rows of an open log, with `SCHEMA` and `LINE`, and the malformed rows."""
    for frame, rejects in table.scan(CLICK_LOG, strict=False):
        yield frame.rename(_RENAMED), rejects


class ClickCounts(NamedTuple):
    """The clicks of all rows together, and those of the row with the most clicks."""

    total: int
    maximum: int


def click_counts(rows: pl.DataFrame) -> ClickCounts:
    """The clicks of all rows together, and the maximum of a row."""
    maximum = col.clicks.max().fill_null(0)
    return ClickCounts(*map(int, rows.select(total=col.clicks.sum(), maximum=maximum).row(0)))


def read_logs(
    paths: Sequence[Path],
    layout: Layout | None = None,
    max_rejected: float = MAX_REJECTED,
    required: Sequence[str] = (),
) -> tuple[pl.DataFrame, Tally]:
    """Reads the good rows of log files and counts the malformed ones.

    Of several files, empty ones are skipped.

    Args:
        paths: the files.
        layout: encoding, column names and other properties of the files.
        max_rejected: maximum fraction of the rows, and of the clicks, that may be malformed.
        required: columns that every file must have besides query and title.

    Returns:
        A frame with `SCHEMA`, `FILE` and `LINE`; and a tally.

    Raises:
        UserError: a file cannot be read or is not a log, too much is malformed, or no row is good.
    """
    files = pl.Enum([*dict.fromkeys(map(str, paths))])
    frames = [pl.DataFrame(schema=SCHEMA | {LINE: pl.Int64, FILE: files})]
    tally = Tally()
    for path in paths:
        with open_table(path, layout=layout) as table:
            if table.is_empty and len(paths) > 1:
                continue  # a part without rows
            if required:
                table.check(log_columns(*required))
            for frame, rejects in scan_log(table):
                frames.append(frame.with_columns(pl.lit(str(path), files).alias(FILE)))
                tally.add(len(frame), *click_counts(frame))
                tally.reject(str(path), rejects)
    tally.check_reject_fraction(max_rejected)
    rows = pl.concat(frames)
    if not len(rows):
        raise UserError(
            f"{' '.join(map(str, paths))} holds no usable rows below the header; is it the right "
            "log?"
        )
    return rows, tally


def write_log(path: Path | str, rows: pl.DataFrame) -> None:
    """Writes a TSV log that `read_logs` reads back."""
    names = {name: name for name in SCHEMA} | {new: old for old, new in _RENAMED.items()}
    cells = rows.select(*SCHEMA).cast(pl.String).iter_rows()
    write_table(path, [names[name] for name in SCHEMA], cells)
