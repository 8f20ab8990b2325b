"""Converts timestamps of logs, ISO 8601 or time since 1970, to numbers that can be compared.

All timestamps of a log must be of one kind, because two kinds cannot be ordered. Examples of two
kinds are times with and without a zone, seconds and milliseconds, or dates and times. Their order
as text would be wrong, too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone

import polars as pl
from dateutil.parser import isoparse
from polars import col

from dssm_tf.common.errors import UserError

_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_BOUNDS = {
    1e8: "a number",  # such as a row number
    1e11: "seconds since 1970",
    1e14: "milliseconds since 1970",
    1e17: "microseconds since 1970",
    1e20: "nanoseconds since 1970",
}
"""The kinds of numbers, by the number that each must be below.

1e8 to 1e11 seconds are the years 1973 to 5138, and so are the ranges of the smaller units. A date
written as `20240131` is "a number"; such dates are ordered correctly.
"""


_UNITS = dict(zip(_BOUNDS, (0, 1, 1e3, 1e6, 1e9), strict=True))
"""Units per second of each kind in `_BOUNDS`, by its bound; 0 for numbers that are not times."""
_DAY = 86_400  # seconds
_YEARS = 1970, 2100


def to_days(cells: pl.Series) -> pl.Series:
    """The day of each timestamp; null if it is unreadable or outside the years 1970 to 2099.

    An ISO 8601 timestamp has the day that is written, whatever its zone. A time since 1970 has its
    day in UTC. `20240131` is a date, too.

    Args:
        cells: timestamps as text.
    """
    unique = cells.unique()
    frame = pl.DataFrame({"cell": unique}).with_columns(
        number=col.cell.cast(pl.Float64, strict=False),
        iso=col.cell.str.extract(r"^(\d{4}-\d{2}-\d{2})(?:[T ].*)?$"),
        compact=col.cell.str.extract(r"^(\d{8})$"),
    )
    seconds = pl.lit(None, pl.Float64)
    for bound, unit in reversed(_UNITS.items()):
        value = col.number / unit if unit else pl.lit(None, pl.Float64)
        seconds = pl.when(col.number.abs() < bound).then(value).otherwise(seconds)
    last_second = (date(_YEARS[1], 1, 1) - date(_YEARS[0], 1, 1)).days * _DAY
    seconds = pl.when(seconds.is_between(0, last_second, "left")).then(seconds)
    frame = frame.with_columns(
        day=pl.coalesce(
            col.iso.str.to_date("%Y-%m-%d", strict=False),
            col.compact.str.to_date("%Y%m%d", strict=False),
            pl.from_epoch((seconds // _DAY).cast(pl.Int32), "d"),
        )
    )
    unusual = frame.filter(col.day.is_null() & col.number.is_null() & (col.cell != ""))["cell"]
    others = {cell: day for cell in unusual.to_list() if (day := _iso_day(cell))}
    days = frame.select("cell", "day")
    if others:
        read = pl.DataFrame({"cell": [*others], "other": [*others.values()]})
        days = days.join(read, on="cell", how="left").select("cell", pl.coalesce("day", "other"))
    in_range = col.day.dt.year().is_between(*_YEARS, closed="left")
    days = days.with_columns(day=pl.when(in_range).then("day"))
    return cells.to_frame("cell").join(days, on="cell", how="left", maintain_order="left")["day"]


def _iso_day(cell: str) -> date | None:
    """The day of a timestamp in a rare form of ISO 8601; None if the timestamp is unreadable."""
    with suppress(ValueError):
        return isoparse(cell).date()
    return None


class TimeParser:
    """Converts the timestamps of a log, all of one kind, to numbers in chronological order."""

    def __init__(self) -> None:
        self._kind = self._first = ""

    def __call__(self, cell: str) -> float:
        """Converts a timestamp.

        ISO 8601 becomes nanoseconds since 1970: in UTC with a zone, else in the log's local time.
        A number does not change.

        Raises:
            UserError: the timestamp is unreadable, or is of another kind than earlier ones.
        """
        kind, time = _read(cell)
        self._kind, self._first = self._kind or kind, self._first or cell
        if kind != self._kind:
            raise UserError(
                f"the timestamps are mixed: {self._first[:40]!r} is {self._kind}, "
                f"{cell[:40]!r} is {kind}; write all of them in the same format."
            )
        return time


def _read(cell: str) -> tuple[str, float]:
    """The kind of a timestamp, and its number."""
    if not cell:
        raise UserError("the timestamp is empty; every row needs one.")
    if _NUMBER.fullmatch(cell):
        # An int keeps digits, such as microseconds, that a float would lose.
        number = int(cell) if cell.isdigit() else float(cell)
        for bound, kind in _BOUNDS.items():
            if abs(number) < bound:
                return kind, number
    try:
        moment = isoparse(re.sub(r" (?=[+-]|Z$)", "", cell))
    except ValueError:
        raise UserError(
            f"the timestamp {cell[:40]!r} is neither ISO 8601, such as 2024-01-31 12:00, nor a "
            "time since 1970; write all of them in one of these formats."
        ) from None
    zone = moment.tzinfo
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=zone and timezone.utc)
    time = (since_1970 // timedelta(microseconds=1)) * 1000 + _nanoseconds(cell)
    if len(cell) <= len("2024-01-31"):
        return "a date", time
    return f"a time {'with' if zone else 'without'} a zone", time


def _nanoseconds(cell: str) -> int:
    """The nanoseconds after the microseconds, 0 to 999, which a `datetime` cannot represent."""
    match = re.search(r"[.,]\d{6}(\d{1,3})", cell)
    return int(match[1].ljust(3, "0")) if match else 0
