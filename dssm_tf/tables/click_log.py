"""Click logs: `query` and `title`, and perhaps `clicks`, `impressions`, `session_id`, `timestamp`.

Other columns, such as `doc_id` and `position`, are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import clean_text, count
from dssm_tf.tables.reader import open_table
from dssm_tf.tables.table import Cells, Reject, Table
from dssm_tf.tables.writer import write_table
from dssm_tf.text.normalize import normalize

REQUIRED = ("query", "title")
OPTIONAL = ("clicks", "impressions", "session_id", "timestamp")


class LogRow(NamedTuple):
    """One good row of a log.

    Args:
        query: as logged, white space at the ends and line breaks removed.
        title: the same.
        clicks: clicks the row stands for; 0 for an impression without a click.
        impressions: how often the title was shown.
        session: the session's name, empty where the log has none.
        timestamp: as logged, empty where the log has none.
    """

    query: str
    title: str
    clicks: int = 1
    impressions: int = 0
    session: str = ""
    timestamp: str = ""


def log_rows(table: Table) -> Iterator[tuple[int, Any]]:
    """Numbered rows of an open log: a `LogRow`, or a `Reject` if it is malformed."""
    return table.rows(REQUIRED, OPTIONAL, _row, strict=False)


def read_logs(paths: Sequence[Path]) -> list[LogRow]:
    """The good rows of log files; malformed ones are left out, as in preprocess.

    Raises:
        UserError: a file cannot be read or is no log, or there is no good row.
    """
    rows = []
    for path in paths:
        with open_table(path) as table:
            rows += [row for _, row in log_rows(table) if not isinstance(row, Reject)]
    if not rows:
        names = " ".join(map(str, paths))
        raise UserError(f"{names} holds no usable rows below the header; is it the right log?")
    return rows


def traffic(rows: Iterable[LogRow]) -> Counter[str]:
    """How often each query, normalised, was clicked for."""
    clicks: Counter[str] = Counter()
    for row in rows:
        clicks[normalize(row.query)] += row.clicks
    return clicks


def write_log(path: Path | str, rows: Iterable[LogRow]) -> None:
    """Writes a TSV log that `read_logs` reads back."""
    write_table(path, (*REQUIRED, *OPTIONAL), (map(str, row) for row in rows))


def _row(cells: Cells) -> LogRow:
    query, title, clicks, impressions, session, timestamp = cells
    return LogRow(
        clean_text(query, "query"),
        clean_text(title, "title"),
        count(clicks, "clicks", 1),
        count(impressions, "impressions", 0),
        "" if session is None else str(session).strip(),
        "" if timestamp is None else str(timestamp).strip(),
    )
