"""Time stamps as people log them, made comparable: ISO 8601, time since 1970, or a given format.

What is compared has to be of one kind. A time without a zone beside one with a zone, seconds beside
milliseconds, a date beside a date with a time: none of these has an order, and text has the wrong
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from dateutil.parser import isoparse

from dssm_tf.common.errors import UserError

_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_BOUNDS = {
    1e8: "a number",  # such as the number of a row
    1e11: "seconds since 1970",
    1e14: "milliseconds since 1970",
    1e17: "microseconds since 1970",
}
"""Numbers below the first bound are of the kind behind it.

1e8 to 1e11 are seconds from 1973 to 5138, and so on. `20240131` is a number, too, in the right
order.
"""


class Clock:
    """Turns time stamps into what is ordered as time, as long as all are of one kind.

    Args:
        time_format: as `datetime.strptime` takes it; None reads ISO 8601 and numbers.
    """

    def __init__(self, time_format: str | None = None) -> None:
        self._kind = self._first = ""
        self._format = time_format

    def __call__(self, cell: str) -> Any:
        """A number, or a `datetime` by the clock of the log where that has no zones.

        Raises:
            UserError: the time stamp is unreadable, or of another kind than those before.
        """
        kind, at = self._read(cell)
        self._kind, self._first = self._kind or kind, self._first or cell
        if kind != self._kind:
            raise UserError(
                f"the time stamps are mixed: {self._first[:40]!r} is {self._kind}, "
                f"{cell[:40]!r} is {kind}; write all of them alike."
            )
        return at

    def all(self, cells: Iterable[str]) -> list[Any]:
        """The same of many."""
        return [*map(self, cells)]

    def _read(self, cell: str) -> tuple[str, Any]:
        """The kind of a time stamp, and what orders it."""
        if not self._format and _NUMBER.fullmatch(cell):
            # Digits that a float would lose, as of microseconds, are kept.
            number = int(cell) if cell.isdigit() else float(cell)
            for bound, kind in _BOUNDS.items():
                if abs(number) < bound:
                    return kind, number
        try:
            if self._format:
                moment = datetime.strptime(cell, self._format)
            else:
                moment = isoparse(re.sub(r" (?=[+-]|Z$)", "", cell))
        except (ValueError, re.error, IndexError) as error:
            if self._format:
                raise UserError(
                    f"--time-format {self._format!r} does not read {cell[:40]!r}: {error}."
                ) from None
            raise UserError(
                f"the time stamp {cell[:40]!r} is neither ISO 8601, such as 2024-01-31 12:00, nor "
                "a time since 1970; give its format, such as --time-format '%d/%m/%Y %H:%M'."
            ) from None
        kind = "a time with a zone" if moment.tzinfo else "a time without a zone"
        if not self._format and len(cell) <= len("2024-01-31"):
            kind = "a date"
        return kind, moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
