"""Click logs: `query` and `title`, and perhaps `clicks`, `impressions`, `session_id`, `timestamp`.

So may `position`. Other columns, such as `doc_id`, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import clean_text, count, count_or, one_line, without_separator
from dssm_tf.tables.layout import Layout, Reject
from dssm_tf.tables.lines import Read, Table
from dssm_tf.tables.reader import open_table
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.tables.writer import write_table

REQUIRED = ("query", "title")
OPTIONAL = ("clicks", "impressions", "session_id", "timestamp")
POSITION = "position"


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
    """

    query: str
    title: str
    clicks: int = 1
    impressions: int = 0
    session: str = ""
    timestamp: str = ""
    position: int = 0


SCHEMA = pa.schema(
    [
        (name, pa.int64() if type(default) is int else pa.large_string())
        for name, default in zip(LogRow._fields, LogRow("", ""), strict=True)
    ]
)
"""The columns of `log_blocks`, those of `LogRow`."""


def log_blocks(table: Table) -> Iterator[tuple[pa.Table, list[Reject]]]:
    """The good rows of an open log, in columns as `SCHEMA` says, and the malformed ones."""
    reads: dict[str, Read] = {
        "query": _query,
        "title": clean_text,
        "clicks": partial(count, default=1),
        "impressions": count,
        "session_id": _as_text,
        "timestamp": _as_text,
        POSITION: partial(count_or, 0),  # a click counts without its place, too
    }
    if not table.names_in_rows:
        table.check_names(REQUIRED, [*reads][2:])
    for columns, rejects in table.blocks(reads):
        yield pa.table(columns, SCHEMA.names).cast(SCHEMA), rejects


def read_logs(
    paths: Sequence[Path],
    layout: Layout | None = None,
    max_rejected: float = MAX_REJECTED,
) -> tuple[list[LogRow], Tally]:
    """The good rows of log files, and what else there was.

    Args:
        paths: the files.
        layout: what their names do not say.
        max_rejected: the share of rows, and of clicks, that may be malformed.

    Raises:
        UserError: a file cannot be read or is no log, too much is malformed, or there is no good
            row.
    """
    rows: list[LogRow] = []
    tally = Tally()
    for path in paths:
        with open_table(path, layout=layout) as table:
            for found, rejects in log_blocks(table):
                rows += map(LogRow._make, zip(*(one.to_pylist() for one in found), strict=True))
                for row in rejects:
                    tally.reject(str(path), row)
    tally.rows += len(rows)
    tally.clicks += sum(row.clicks for row in rows)
    tally.refuse(max_rejected)
    if not rows:
        raise UserError(
            f"{' '.join(map(str, paths))} holds no usable rows below the header; is it the right "
            "log?"
        )
    return rows, tally


def write_log(path: Path | str, rows: Iterable[LogRow]) -> None:
    """Writes a TSV log that `read_logs` reads back."""
    write_table(path, (*REQUIRED, *OPTIONAL, POSITION), (map(str, row) for row in rows))


def _query(value: object, name: str) -> str:
    return without_separator(clean_text(value, name), name)


def _as_text(value: object, _: str) -> str:
    return "" if value is None else one_line(str(value).strip())
