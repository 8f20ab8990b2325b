"""Time stamps as people log them, made comparable: ISO 8601, time since 1970, or a given format.

What is compared has to be of one kind. A time without a zone beside one with a zone, seconds beside
milliseconds, a date beside a date with a time: none of these has an order, and text has the wrong
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from itertools import islice

from dssm_tf.common.errors import OptionError, UserError

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ISO = re.compile(
    r"(?P<day>\d{4}-?\d\d-?\d\d)"
    r"(?:[T ]?(?P<hour>\d\d):?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?"
    r" ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d*)?(?:[eE][+]?\d{1,2})?")
_UNITS = (
    (1e8, "a number", 0),  # such as the number of a row
    (1e11, "seconds since 1970", _SECOND),
    (1e14, "milliseconds since 1970", 1_000),
    (1e17, "microseconds since 1970", 1),
)
"""Numbers below the first bound are of the kind behind it; how many microseconds each counts.

1e8 to 1e11 are seconds from 1973 to 5138, and so on.
"""
_GUESSED = 100_000
_SLASHES = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(.*)")
_APACHE = re.compile(r"\[?\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]?")


class _BadTime(ValueError):
    """A time stamp that cannot be read."""


class Clock:
    """Turns time stamps into numbers whose order is that of time, as long as all are of one kind.

    Args:
        time_format: as `datetime.strptime` takes it; None reads ISO 8601 and numbers.

    Attributes:
        kind: of the time stamps so far.
    """

    def __init__(self, time_format: str | None = None) -> None:
        self.kind = ""
        self._first = ""
        self._read = _formatted(time_format) if time_format else _read

    def __call__(self, cell: str) -> float:
        """Microseconds since 1970, by the clock of the log where it has no zones; or a number.

        Raises:
            UserError: the time stamp is unreadable, or of another kind than those before.
        """
        return self.all([cell])[0]

    def all(self, cells: Sequence[str]) -> list[float]:
        """The same of many."""
        found: list[float] = []
        for place, cell in enumerate(cells):
            try:
                kind, at = self._read(cell)
            except _BadTime as bad:
                raise UserError(f"{bad}{_guess(islice(cells, place, place + _GUESSED))}.") from None
            if kind != self.kind:
                if self.kind:
                    raise UserError(
                        f"the time stamps are mixed: {self._first[:40]!r} is {self.kind}, "
                        f"{cell[:40]!r} is {kind}; write all of them alike."
                    )
                self.kind, self._first = kind, cell
            found.append(at)
        return found

    def shown(self, at: float) -> str:
        """A number as a person may read it."""
        if self.kind == "a number":
            return f"{at:.15g}"
        if self.kind == "a date":
            return date.fromordinal(date(1970, 1, 1).toordinal() + int(at // _DAY)).isoformat()
        try:
            moment = _EPOCH + timedelta(microseconds=at)
        except OverflowError:
            return f"{at / _SECOND:.15g} s"
        zone = "" if self.kind == "a time without a zone" else "Z"
        return moment.replace(tzinfo=None).isoformat(" ", "seconds") + zone


def _read(cell: str) -> tuple[str, float]:
    """The kind of a time stamp, and microseconds since 1970 or a number.

    Raises:
        _BadTime: it is unreadable.
    """
    found = _ISO.fullmatch(cell)
    if found and not (cell.isdigit() and cell[:2] not in ("19", "20")):
        day, hour, minute, second, part, zone = found.groups()
        midnight = _midnight(day)
        if hour is None and midnight is not None:
            return "a date", midnight
        clock = _of_day(hour, minute, second) if hour else None
        if midnight is not None and clock is not None:
            at = midnight + clock + (int(part[:6].ljust(6, "0")) if part else 0)
            if zone is None:
                return "a time without a zone", at
            offset = _offset(zone)
            if offset is not None:
                return "a time with a zone", at - offset
    if _NUMBER.fullmatch(cell):
        number = float(cell)
        for bound, kind, unit in _UNITS:
            if abs(number) < bound:
                # Digits that a float would lose, as of microseconds, are kept.
                exact = int(cell) * unit if cell.isdigit() else round(number * unit)
                return kind, exact if unit else number
    raise _BadTime(
        f"the time stamp {cell[:40]!r} is neither ISO 8601, such as 2024-01-31 12:00, nor a time "
        "since 1970"
    )


@lru_cache(maxsize=1 << 16)
def _midnight(day: str) -> int | None:
    digits = day.replace("-", "")
    if day.count("-") == 1:  # 2024-0131
        return None
    try:
        found = date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None
    return (found.toordinal() - 719_163) * _DAY  # the ordinal of 1970-01-01


@lru_cache(maxsize=1 << 17)
def _of_day(hour: str, minute: str, second: str | None) -> int | None:
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 60:  # 60 is a leap second
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND


@lru_cache(maxsize=1 << 10)
def _offset(zone: str) -> int | None:
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = _of_day(digits[:2], digits[2:], None)
    return offset if offset is None or zone[0] == "+" else -offset


def _formatted(time_format: str) -> Callable[[str], tuple[str, float]]:
    """As `_read`, by a format."""

    @lru_cache(maxsize=1 << 17)
    def read(cell: str) -> tuple[str, float]:
        try:
            found = datetime.strptime(cell, time_format)
        except (ValueError, re.error, IndexError) as error:
            raise OptionError(
                "--time-format", f"{time_format!r} does not read {cell[:40]!r}: {error}."
            ) from None
        kind = "a time with a zone" if found.tzinfo else "a time without a zone"
        aware = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return kind, (aware - _EPOCH) // timedelta(microseconds=1)

    return read


def _guess(cells: Iterable[str]) -> str:
    """What to give for time stamps of which the first could not be read, and on what ground."""
    first, last, sign, rest = "", "", "", ""
    for cell in cells:
        first, last = first or cell, cell
        if _APACHE.fullmatch(cell):
            brackets = ("[", "]") if cell.startswith("[") else ("", "")
            return f"; give --time-format '{'%d/%b/%Y:%H:%M:%S %z'.join(brackets)}'"
        found = _SLASHES.fullmatch(cell)
        if found is None:
            return "; give its format, such as --time-format '%d/%m/%Y %H:%M'"
        one, sign, other, _, clock = found.groups()
        rest = {"": "", 1: " %H:%M", 2: " %H:%M:%S"}.get(clock and clock.count(":"), " ...")
        if int(one) > 12 or int(other) > 12:
            order = "%d{0}%m{0}%Y" if int(one) > 12 else "%m{0}%d{0}%Y"
            also = "" if cell == first else f" ({cell[:40]!r} shows which is the day)"
            return f"; give --time-format '{order.format(sign)}{rest}'{also}"
    return (
        f"; neither it nor {last[:40]!r} shows which is the day and which the month: give "
        f"--time-format '%d{sign}%m{sign}%Y{rest}' or '%m{sign}%d{sign}%Y{rest}'"
    )
