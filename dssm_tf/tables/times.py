"""Time stamps as people log them, made comparable: ISO 8601, time since 1970, or a given format.

What is compared has to be of one kind. A time without a zone beside one with a zone, seconds beside
milliseconds, a date beside a date with a time: none of these has an order, and text has the wrong
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from dateutil.parser import isoparse

from dssm_tf.common.errors import UserError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_COMPACT = re.compile(r"((?:19|20)\d{6})(\d{4}|\d{6})?")
_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_UNITS = (
    (1e8, "a number", 0),  # such as the number of a row
    (1e11, "seconds since 1970", 1_000_000),
    (1e14, "milliseconds since 1970", 1_000),
    (1e17, "microseconds since 1970", 1),
)
"""Numbers below the first bound are of the kind behind it; how many microseconds each counts.

1e8 to 1e11 are seconds from 1973 to 5138, and so on.
"""


class Clock:
    """Turns time stamps into numbers whose order is that of time, as long as all are of one kind.

    Args:
        time_format: as `datetime.strptime` takes it; None reads ISO 8601 and numbers.

    Attributes:
        kind: of the time stamps so far.
    """

    def __init__(self, time_format: str | None = None) -> None:
        self.kind = self._first = ""
        self._format = time_format

    def __call__(self, cell: str) -> float:
        """Microseconds since 1970, by the clock of the log where it has no zones; or a number.

        Raises:
            UserError: the time stamp is unreadable, or of another kind than those before.
        """
        kind, at = self._read(cell)
        self.kind, self._first = self.kind or kind, self._first or cell
        if kind != self.kind:
            raise UserError(
                f"the time stamps are mixed: {self._first[:40]!r} is {self.kind}, "
                f"{cell[:40]!r} is {kind}; write all of them alike."
            )
        return at

    def all(self, cells: Iterable[str]) -> list[float]:
        """The same of many."""
        return [*map(self, cells)]

    def shown(self, at: float) -> str:
        """A number as a person may read it."""
        if self.kind == "a number":
            return f"{at:.15g}"
        try:
            moment = (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)
        except OverflowError:
            return f"{at / 1e6:.15g} s"
        if self.kind == "a date":
            return moment.date().isoformat()
        return moment.isoformat(" ", "seconds") + "Z" * (self.kind != "a time without a zone")

    def _read(self, cell: str) -> tuple[str, float]:
        """The kind of a time stamp, and microseconds since 1970 or a number."""
        compact = _COMPACT.fullmatch(cell)
        if not self._format and not compact and _NUMBER.fullmatch(cell):
            number = float(cell)
            for bound, kind, unit in _UNITS:
                if abs(number) < bound:
                    # Digits that a float would lose, as of microseconds, are kept.
                    exact = int(cell) * unit if cell.isdigit() else round(number * unit)
                    return kind, exact if unit else number
        try:
            if self._format:
                moment = datetime.strptime(cell, self._format)
            else:
                text = "T".join(filter(None, compact.groups())) if compact else cell
                moment = isoparse(re.sub(r" (?=[+-]|Z$)", "", text))
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
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return kind, (aware - _EPOCH) // timedelta(microseconds=1)
