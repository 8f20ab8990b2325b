"""Click logs: `query` and `title`, and perhaps `clicks`, `impressions`, `session_id`, `timestamp`.

`position` is read where it is asked for. Other columns, such as `doc_id`, are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, clean_text, count, grouped, readable
from dssm_tf.tables.layout import Layout, Reject, reject
from dssm_tf.tables.reader import open_table
from dssm_tf.tables.table import Block, Cells, Table, made
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.tables.title_fields import TITLE, without_separator
from dssm_tf.tables.writer import write_table
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.rules import FOLDED

REQUIRED = ("query", "title")
OPTIONAL = ("clicks", "impressions", "session_id", "timestamp")
POSITION = "position"
_TEXT, _COUNT = pa.large_string(), pa.int64()
_DEFAULTS = {"clicks": 1, "impressions": 0, POSITION: 0}
_PLAIN_COUNT = "^[0-9]{1,12}$"
_ODD_TEXT = f"[\t\r\n{SEPARATOR}]"


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


SCHEMA = pa.schema([(name, _COUNT if name in _DEFAULTS else _TEXT) for name in LogRow._fields])
"""The columns of `log_blocks`, those of `LogRow`."""


def log_blocks(
    table: Table, place: Callable[[object], int] | None = None
) -> Iterator[tuple[pa.Table, list[Reject]]]:
    """The good rows of an open log, in columns as `SCHEMA` says, and the malformed ones.

    Usual cells are checked a column at once. Rows with any other are made one by one, so that what
    a cell may hold is said in one place.

    Args:
        table: the log.
        place: reads cells of the column `position` that are unusual, as `position` does; if None,
            the column is not read and all positions are 0.
    """
    names = (*REQUIRED, *OPTIONAL, *((POSITION,) if place else ()))
    if not table.names_in_rows:
        table.check_names(REQUIRED, names[2:])
    for block in table.blocks(names):
        yield _checked(block, names, table.layout.thousands, place)


def _checked(
    block: Block,
    names: Sequence[str],
    thousands: str,
    place_of: Callable[[object], int] | None,
) -> tuple[pa.Table, list[Reject]]:
    size = len(block.numbers)
    usual = np.ones(size, bool)
    columns = []
    for name, column in zip(names, block.columns, strict=True):
        array, good = _usual(name, column, size)
        usual &= good
        columns.append(array)
    if len(names) < len(SCHEMA):
        columns.append(pa.array(np.zeros(size, np.int64)))
    found = pa.Table.from_arrays(columns, schema=SCHEMA)
    if usual.all():
        return found, [reject(*bad) for bad in block.bad]
    odd = np.flatnonzero(~usual).tolist()
    places, rows, bad = made(block, lambda cells: _row(cells, thousands, place_of), odd)
    more = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(SCHEMA)]
    found = pa.concat_tables(
        [found.filter(pa.array(usual)), pa.Table.from_arrays(more, schema=SCHEMA)]
    )
    order = np.argsort([*np.flatnonzero(usual), *places], kind="stable")
    return found.take(order), [reject(*one) for one in bad]


def _usual(name: str, column: Any, size: int) -> tuple[pa.Array, NDArray[np.bool_]]:
    """A column of a log as `SCHEMA` has it, and which of its cells are as in most logs."""
    texts = _texts(name, column, size)
    array = pc.utf8_trim_whitespace(pa.nulls(size, _TEXT) if texts is None else texts)
    absent = pc.equal(array, "").fill_null(True)
    if name in _DEFAULTS:
        plain = pc.match_substring_regex(array, _PLAIN_COUNT).fill_null(False)
        array = pc.if_else(plain, array, None).cast(_COUNT)
        above = pc.greater_equal(array, int(name == POSITION)).fill_null(False)
        good, array = pc.or_(above, absent), array.fill_null(_DEFAULTS[name])
    else:
        array = array.fill_null("")
        odd = pc.or_(absent, pc.match_substring_regex(array, _ODD_TEXT))
        good = pc.invert(odd) if name in REQUIRED else pa.array(np.ones(size, bool))
    return array, good.to_numpy(zero_copy_only=False) & (texts is not None)


def _texts(name: str, column: Any, size: int) -> pa.Array | None:
    """A column's cells as texts; None if some are neither texts nor, for counts, whole numbers."""
    try:
        array = pa.nulls(size) if column is None else pa.array(column)
        text = pa.types.is_null(array.type) or "string" in str(array.type)
        if text or (pa.types.is_integer(array.type) and name not in REQUIRED):
            return array.cast(_TEXT)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return None


def _row(cells: Cells, thousands: str, place: Callable[[object], int] | None) -> LogRow:
    """A row from the cells of its columns; raises `BadRow`."""
    query, title, clicks, impressions, session, timestamp, *more = cells
    try:
        return LogRow(
            without_separator(clean_text(query, "query"), "query"),
            clean_text(title, "title"),
            count(clicks, "clicks", 1, thousands),
            count(impressions, "impressions", 0, thousands),
            _as_text(session),
            _as_text(timestamp),
            place(more[0]) if place else 0,
        )
    except BadRow as bad:
        bad.clicks = _likely_clicks(clicks)
        raise


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
        place: see `log_blocks`.

    Raises:
        UserError: a file cannot be read or is no log, too much is malformed, or there is no good
            row.
    """
    rows: list[LogRow] = []
    tally = Tally()
    for path in paths:
        with open_table(path, layout=layout) as table:
            for found, rejects in log_blocks(table, place):
                rows += map(LogRow._make, zip(*(one.to_pylist() for one in found), strict=True))
                for row in rejects:
                    tally.reject(str(path), row)
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


def _as_text(cell: object) -> str:
    return "" if cell is None else readable(str(cell).strip())


def _likely_clicks(cell: object) -> int:
    """What a bad row's cell would be, read as well as anybody can; 1 if that is unclear."""
    sign, digits = grouped(cell.strip()) if isinstance(cell, str) else ("", "")
    try:
        return int(digits) if sign else count(cell, "clicks", 1)
    except BadRow:
        return 1
