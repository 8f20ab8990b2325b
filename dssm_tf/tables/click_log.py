"""Click logs: `query` and `title`, and perhaps `clicks`, `impressions`, `session_id`, `timestamp`.

`position` is read where it is asked for. Other columns, such as `doc_id`, are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, clean_text, count, grouped
from dssm_tf.tables.reader import open_table
from dssm_tf.tables.table import Cells, Layout, Reject, Table
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.tables.title_fields import TITLE, without_separator
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

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
        position: of the title in the list, from 1; 0 where it is unknown or not asked for.
    """

    query: str
    title: str
    clicks: int = 1
    impressions: int = 0
    session: str = ""
    timestamp: str = ""
    position: int = 0


def log_rows(
    table: Table, place: Callable[[object], int] | None = None
) -> Iterator[tuple[int, Any]]:
    """Numbered rows of an open log: a `LogRow`, or a `Reject` if it is malformed.

    Args:
        table: the log.
        place: reads the cells of the column `position`, such as `position`; of no concern if None.
    """
    thousands = table.layout.thousands

    def make(cells: Cells) -> LogRow:
        query, title, clicks, impressions, session, timestamp, *more = cells
        try:
            return LogRow(
                without_separator(clean_text(query, "query"), "query"),
                clean_text(title, "title"),
                count(clicks, "clicks", 1, thousands),
                count(impressions, "impressions", 0, thousands),
                "" if session is None else str(session).strip(),
                "" if timestamp is None else str(timestamp).strip(),
                place(more[0]) if place else 0,
            )
        except BadRow as bad:
            bad.clicks = _likely_clicks(clicks)
            raise

    optional = (*OPTIONAL, POSITION) if place else OPTIONAL
    return table.rows(REQUIRED, optional, make, strict=False)


def read_logs(
    paths: Sequence[Path],
    layout: Layout | None = None,
    max_rejected: float = MAX_REJECTED,
    flag: str = "--max-reject-fraction",
    *,
    place: Callable[[object], int] | None = None,
) -> tuple[list[LogRow], Tally]:
    """The good rows of log files, and what else there was.

    Args:
        paths: the files.
        layout: what their names do not say.
        max_rejected: the share of rows, and of clicks, that may be malformed.
        flag: what raises it, if anything does.
        place: see `log_rows`.

    Raises:
        UserError: a file cannot be read or is no log, too much is malformed, or there is no good
            row.
    """
    rows: list[LogRow] = []
    tally = Tally()
    for path in paths:
        with open_table(path, layout=layout) as table:
            for _, row in log_rows(table, place):
                if isinstance(row, Reject):
                    tally.reject(str(path), row)
                else:
                    rows.append(row)
    tally.rows += len(rows)
    tally.clicks += sum(row.clicks for row in rows)
    names = " ".join(map(str, paths))
    if not tally.rows:
        raise UserError(f"{names} holds no rows below the header; is it the right log?")
    tally.refuse(max_rejected, flag)
    if not rows:
        raise UserError(f"{names} holds no usable rows below the header; is it the right log?")
    return rows, tally


def traffic(rows: Iterable[LogRow]) -> Counter[str]:
    """How often each query, normalised, was clicked for."""
    clicks: Counter[str] = Counter()
    for row in rows:
        clicks[FOLDED.key(row.query)] += row.clicks
    return clicks


def write_log(
    path: Path | str, rows: Iterable[LogRow], title_fields: Sequence[str] = (TITLE,)
) -> None:
    """Writes a TSV log that `read_logs` reads back; with positions where a row has one."""
    rows = list(rows)
    columns: tuple[str, ...] = (*REQUIRED, *OPTIONAL)
    cells: Iterable[Iterable[str]] = (map(str, row[:-1]) for row in rows)
    if any(row.position for row in rows):
        columns = (*columns, POSITION)
        cells = ((*map(str, row[:-1]), str(row.position or "")) for row in rows)
    write_table(path, columns, cells, title_fields)


def position(cell: object) -> int:
    """A place in a list, from 1; 0 where the cell is empty.

    Raises:
        BadRow: anything else.
    """
    found = count(cell, POSITION, 0)
    if not found and cell is not None and str(cell).strip():
        raise BadRow("position below 1")
    return found


def _likely_clicks(cell: object) -> int:
    """What a bad row's cell would be, read as well as anybody can; 1 if that is unclear."""
    sign, digits = grouped(cell.strip()) if isinstance(cell, str) else ("", "")
    try:
        return int(digits) if sign else count(cell, "clicks", 1)
    except BadRow:
        return 1
