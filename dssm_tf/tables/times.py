"""Time stamps as people log them, made comparable: ISO 8601 or time since 1970.

What is compared has to be of one kind. A time without a zone beside one with a zone, seconds beside
milliseconds, a date beside a date with a time: none of these has an order, and text has the wrong
one.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from dateutil.parser import isoparse

from dssm_tf.common.errors import UserError

_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_BOUNDS = {
    1e8: "a number",  # such as the number of a row
    1e11: "seconds since 1970",
    1e14: "milliseconds since 1970",
    1e17: "microseconds since 1970",
    1e20: "nanoseconds since 1970",
}
"""Numbers below the first bound are of the kind behind it.

1e8 to 1e11 are seconds from 1973 to 5138, and so on. `20240131` is a number, too, in the right
order.
"""


class Clock:
    """Turns time stamps into what is ordered as time, as long as all are of one kind."""

    def __init__(self) -> None:
        self._kind = self._first = ""

    def __call__(self, cell: str) -> float:
        """A number; of ISO 8601, nanoseconds since 1970 by the clock of the log.

        Raises:
            UserError: the time stamp is unreadable, or of another kind than those before.
        """
        kind, time = _read(cell)
        self._kind, self._first = self._kind or kind, self._first or cell
        if kind != self._kind:
            raise UserError(
                f"the time stamps are mixed: {self._first[:40]!r} is {self._kind}, "
                f"{cell[:40]!r} is {kind}; write all of them alike."
            )
        return time


def _read(cell: str) -> tuple[str, float]:
    """The kind of a time stamp, and what orders it."""
    if not cell:
        raise UserError("the time stamp is empty; give every row one.")
    if _NUMBER.fullmatch(cell):
        # Digits that a float would lose, as of microseconds, are kept.
        number = int(cell) if cell.isdigit() else float(cell)
        for bound, kind in _BOUNDS.items():
            if abs(number) < bound:
                return kind, number
    try:
        moment = isoparse(re.sub(r" (?=[+-]|Z$)", "", cell))
    except ValueError:
        raise UserError(
            f"the time stamp {cell[:40]!r} is neither ISO 8601, such as 2024-01-31 12:00, nor a "
            "time since 1970; write all of them so."
        ) from None
    zone = moment.tzinfo
    since = moment - datetime(1970, 1, 1, tzinfo=zone and timezone.utc)
    time = (since // timedelta(microseconds=1)) * 1000 + _nanoseconds(cell)
    if len(cell) <= len("2024-01-31"):
        return "a date", time
    return f"a time {'with' if zone else 'without'} a zone", time


def _nanoseconds(cell: str) -> int:
    """The digits behind the microseconds, which a `datetime` has no room for."""
    behind = re.search(r"[.,]\d{6}(\d{1,3})", cell)
    return int(behind[1].ljust(3, "0")) if behind else 0
