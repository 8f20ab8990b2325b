"""What a cell may hold: texts, ids, counts of clicks, grades; every other value is a bad row."""

from __future__ import annotations

import math
import re

MAX_COUNT = 1 << 40
LARGEST_GRADE = 100.0  # the gain is 2^grade - 1, and 2^128 overflows single precision
_BREAKS = str.maketrans("\t\r\n", "   ")
_SURROGATES = re.compile("[\ud800-\udfff]")
_GROUPED = re.compile(r"(\d{1,3}(?=([,.'’_\s]))(?:\2\d{2,3})*\2\d{3})(?:(?!\2)[.,]0+)?")
_LONGEST_GROUPED = len(f"{MAX_COUNT:,}.00")
THOUSANDS = (",", ".", "'", "_", " ")
"""What stands between thousands: ’ is taken for ', any other white space for a space."""


class BadRow(ValueError):
    """Why a row cannot be used.

    Args:
        reason: out of a small fixed set, so that rows can be counted by it.
        detail: the same with what was received and expected, for a reader that stops here.
        clicks: what is lost with the row, as far as anybody can tell.
    """

    def __init__(self, reason: str, detail: str = "", clicks: int = 1) -> None:
        super().__init__(reason)
        self.detail = detail or reason
        self.clicks = clicks


def text(value: object, name: str) -> str:
    """A text as it stands, perhaps empty.

    Raises:
        BadRow: there is none, or a value of another type.
    """
    if isinstance(value, str):
        return value
    raise BadRow(
        f"no {name}" if value is None else f"{name} is not text",
        f"{name!r} is {value!r:.40}; expected text",
    )


def clean_text(value: object, name: str) -> str:
    """A text on one line, without white space at its ends.

    Raises:
        BadRow: nothing is left, or the text holds what no UTF-8 file can hold.
    """
    found = (value if isinstance(value, str) else text(value, name)).strip()
    if not found:
        raise BadRow(f"empty {name}", f"the {name} is empty")
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            raise BadRow("bad UTF-8") from None
    return found if found.isprintable() else one_line(found)


def identifier(value: object, name: str) -> str:
    """An id: a text, or a whole number of JSON or Parquet.

    Raises:
        BadRow: any other value.
    """
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    raise BadRow(f"no {name}", f"{name!r} is {value!r:.40}; expected text or a whole number")


def count(value: object, name: str, default: int, thousands: str = "") -> int:
    """A count of clicks or impressions: a whole number from 0 to 2**40; empty means the default.

    >>> count("3", "clicks", 1), count("3.0", "clicks", 1), count("", "clicks", 1)
    (3, 3, 1)
    >>> count("67,998", "clicks", 1, thousands=",")
    67998

    Args:
        value: of the cell.
        name: of the column.
        default: what an empty cell means.
        thousands: the sign between thousands, one of `THOUSANDS`. Without one, `1.000` is refused:
            it may be one or a thousand.

    Raises:
        BadRow: anything else.
    """
    if value is None:
        return default
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) <= 12:
            return int(value)
        value = value.strip()
        if not value:
            return default
        sign, digits = grouped(value)
        if sign and sign == thousands:
            value = digits
        elif sign and (sign != "." or not thousands):
            raise BadRow(
                between_thousands(name, sign),
                f"{name} {value!r:.40} has {sign!r} between its thousands; say so with "
                f"--thousands {sign!r}",
                int(digits),
            )
        elif thousands == "." and "." in value:
            raise BadRow(f"{name} is not a number")
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError
        if isinstance(value, str) and "_" in value:  # Python's own, 1_000
            raise ValueError
        number = float(value)
    except OverflowError:
        raise BadRow(f"{name} is too large") from None
    except ValueError:
        raise BadRow(f"{name} is not a number") from None
    if not math.isfinite(number):
        raise BadRow(f"{name} is not finite")
    if number < 0:
        raise BadRow(f"{name} is negative")
    if number > MAX_COUNT:
        raise BadRow(f"{name} is too large")
    if number != int(number):
        raise BadRow(f"{name} is not a whole number")
    return int(number)


def grouped(text: str) -> tuple[str, str]:
    """The sign between a number's thousands and its digits; two empty texts if there is none.

    >>> grouped("67,998"), grouped("1.234.567,00"), grouped("12,34,567"), grouped("1,5")
    ((',', '67998'), ('.', '1234567'), (',', '1234567'), ('', ''))
    """
    found = _GROUPED.fullmatch(text) if len(text) <= _LONGEST_GROUPED else None
    if found is None:
        return "", ""
    sign = " " if found[2].isspace() else found[2].replace("’", "'")
    return sign, found[1].replace(found[2], "")


def between_thousands(name: str, sign: str) -> str:
    """The reason why a count is refused that has a sign between its thousands."""
    return f"{name} with {sign!r} between thousands"


def number(value: object, name: str) -> float:
    """A number, possibly infinite.

    Raises:
        BadRow: it is none.
    """
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if math.isnan(found):
        raise BadRow(f"{name} is not a number", f"{name} {value!r:.40} is not a number")
    return found


def grade(value: object) -> float:
    """A grade from 0 to 100.

    Raises:
        BadRow: anything else.
    """
    found = number(value, "grade")
    if not 0 <= found <= LARGEST_GRADE:
        raise BadRow(
            "grade out of range",
            f"grade {value!r:.40}; expected a number from 0 to {LARGEST_GRADE:g} "
            "(the gain is 2^grade - 1)",
        )
    return found


def one_line(text: str) -> str:
    """The text without what would end a cell or a line of a table."""
    return text.translate(_BREAKS)


def readable(text: str) -> str:
    """The text with U+FFFD for surrogates, which stand for bytes that were not UTF-8."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
