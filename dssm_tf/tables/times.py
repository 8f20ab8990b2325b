"""Parses time stamps of logs, ISO 8601 or time since 1970, to numbers that can be compared.

All time stamps of a log must be of one kind, because two kinds cannot be ordered: times with and
without a zone, seconds and milliseconds, dates and times. Ordering them as text would be wrong.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from dateutil.parser import isoparse

from dssm_tf.common.errors import UserError

_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_BOUNDS = {
    1e8: "a number",  # such as a row number
    1e11: "seconds since 1970",
    1e14: "milliseconds since 1970",
    1e17: "microseconds since 1970",
    1e20: "nanoseconds since 1970",
}
"""Upper bounds of the numbers of each kind.

As seconds, 1e8 to 1e11 are the years 1973 to 5138, and likewise for the smaller units. A date
written as `20240131` is "a number"; such dates are ordered correctly.
"""


class TimeParser:
    """Converts the time stamps of a log, all of one kind, to numbers in the order of time."""

    def __init__(self) -> None:
        self._kind = self._first = ""

    def __call__(self, cell: str) -> float:
        """Converts a time stamp; ISO 8601 becomes nanoseconds since 1970 in the zone of the log.

        Raises:
            UserError: the time stamp is unreadable, or is of another kind than earlier ones.
        """
        kind, time = _read(cell)
        self._kind, self._first = self._kind or kind, self._first or cell
        if kind != self._kind:
            raise UserError(
                f"the time stamps are mixed: {self._first[:40]!r} is {self._kind}, "
                f"{cell[:40]!r} is {kind}; write all of them in the same format."
            )
        return time


def _read(cell: str) -> tuple[str, float]:
    """The kind of a time stamp, and its number."""
    if not cell:
        raise UserError("the time stamp is empty; every row needs one.")
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
            f"the time stamp {cell[:40]!r} is neither ISO 8601, such as 2024-01-31 12:00, nor a "
            "time since 1970; write all of them in one of these formats."
        ) from None
    zone = moment.tzinfo
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=zone and timezone.utc)
    time = (since_1970 // timedelta(microseconds=1)) * 1000 + _nanoseconds(cell)
    if len(cell) <= len("2024-01-31"):
        return "a date", time
    return f"a time {'with' if zone else 'without'} a zone", time


def _nanoseconds(cell: str) -> int:
    """The digits after the microseconds, which a `datetime` cannot represent: 0 to 999."""
    match = re.search(r"[.,]\d{6}(\d{1,3})", cell)
    return int(match[1].ljust(3, "0")) if match else 0
