"""Click logs: `query` and `title`, and perhaps further columns, see `LogRow`."""

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
"""The column of frames that names the file of a row."""
_RENAMED = {"session_id": "session"}


class LogRow(NamedTuple):
    """One good row of a log.

    Args:
        query: as logged, white space at the ends and line breaks removed.
        title: the same.
        clicks: clicks the row stands for; 0 for an impression without a click.
        impressions: how often the title was shown.
        session: the session's name, empty where the log has none.
        timestamp: as logged, empty where the log has none.
        position: of the title in the list, from 1; 0 where it is unknown or no whole number.
        doc_id: of the title, empty where the log has none.
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
    """Rows as the frame that `read_logs` makes."""
    return pl.DataFrame([*rows], SCHEMA, orient="row")


def log_columns(*required: str) -> list[Column]:
    """The columns of a log.

    Args:
        *required: those that it must have besides query and title.
    """
    return [
        replace(column, required=column.required or column.name in required) for column in CLICK_LOG
    ]


def scan_log(table: Table) -> Iterator[tuple[pl.DataFrame, list[Reject]]]:
    """The good rows of an open log, see `SCHEMA`, with `LINE`, and the malformed ones."""
    for frame, rejects in table.scan(CLICK_LOG, strict=False):
        yield frame.rename(_RENAMED), rejects


def click_totals(rows: pl.DataFrame) -> tuple[int, int]:
    """The clicks of all rows, and those of the row with most."""
    total, most = rows.select(total=col.clicks.sum(), most=col.clicks.max().fill_null(0)).row(0)
    return int(total), int(most)


def read_logs(
    paths: Sequence[Path],
    layout: Layout | None = None,
    max_rejected: float = MAX_REJECTED,
    required: Sequence[str] = (),
) -> tuple[pl.DataFrame, Tally]:
    """The good rows of log files, and what else there was.

    Args:
        paths: the files.
        layout: what their names do not say.
        max_rejected: the fraction of rows, and of clicks, that may be malformed.
        required: columns that every file must have besides query and title.

    Returns:
        The rows as `SCHEMA` says, with `FILE` and `LINE`; and a tally.

    Raises:
        UserError: a file cannot be read or is no log, too much is malformed, or there is no good
            row.
    """
    files = pl.Enum([*dict.fromkeys(map(str, paths))])
    frames = [pl.DataFrame(schema=SCHEMA | {LINE: pl.Int64, FILE: files})]
    tally = Tally()
    for path in paths:
        with open_table(path, layout=layout) as table:
            if required:
                table.check(log_columns(*required))
            for frame, rejects in scan_log(table):
                frames.append(frame.with_columns(pl.lit(str(path), files).alias(FILE)))
                tally.add(len(frame), *click_totals(frame))
                tally.reject(str(path), rejects)
    tally.refuse(max_rejected)
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
