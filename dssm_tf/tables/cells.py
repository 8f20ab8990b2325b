"""Parses single cells: texts, ids, click counts, grades. A cell with another value is a `BadRow`.

The parsers take a cell and the name of its column.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress

from dssm_tf.common.numbers import read_number
from dssm_tf.text.fields import SEPARATOR

MAX_COUNT = 1 << 40
MAX_GRADE = 100.0  # the gain is 2^grade - 1, and 2^128 overflows single precision
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?:([,.'\u2019\u066c\uff0c _\u00a0\u2009\u202f])\d{2,3}(?:\1\d{2,3})*(?<=\d{3}))"
    r"(?:[.,]0{1,2})?"
)
"""Numbers such as 8,270 or 8.270 or 12,34,567.00: groups of three digits, or of two as in India."""
_ALMOST_A_COUNT = re.compile(r"[-+~<>=\u2248\u2264\u2265 ]*(\d+(?:\.\d*)?)\s*([kKmM]?)[a-zA-Z\s+]*")
_BREAKS = dict.fromkeys(range(0xD800, 0xE000), 0xFFFD) | dict.fromkeys(map(ord, "\t\r\n"), " ")


class BadRow(ValueError):
    """A row that cannot be used, with the reason.

    Args:
        reason: one of a small set of reasons, by which rows are counted.
        detail: the reason with the received and the expected value, for an error message.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail or reason


def text(value: object, name: str) -> str:
    """A text on one line, possibly empty.

    Raises:
        BadRow: the cell is missing or has another type.
    """
    if isinstance(value, str):
        return one_line(value)
    raise BadRow(
        f"no {name}" if value is None else f"{name} is not text",
        f"{name!r} is {value!r:.40}; expected text",
    )


def clean_text(value: object, name: str) -> str:
    """A text on one line, without white space at its ends.

    Raises:
        BadRow: the cell is missing, is not text, is blank, or was not valid UTF-8.
    """
    cleaned = text(value, name).strip()
    if not cleaned:
        raise BadRow(f"empty {name}", f"the {name} is empty")
    if cleaned.count("\ufffd") > str(value).count("\ufffd"):
        raise BadRow("bad UTF-8")
    return cleaned


def title_field(value: object, name: str) -> str:
    """A field of a title, without white space at its ends; an empty cell is an empty field.

    Raises:
        BadRow: the cell is neither text nor a whole number, or contains `SEPARATOR`.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    return without_separator(identifier(value, name).strip(), name)


def without_separator(text: str, name: str) -> str:
    """Returns the text unchanged.

    Raises:
        BadRow: the text contains `SEPARATOR`, which separates the fields of a title.
    """
    if SEPARATOR in text:
        raise BadRow(
            f"{SEPARATOR} in {name}",
            f"the {name} {text!r:.40} contains {SEPARATOR} (U+241F), which separates the fields of "
            "a title; remove it",
        )
    return text


def identifier(value: object, name: str) -> str:
    """An id on one line: a text that is not blank, or a whole number of JSON or Parquet.

    Raises:
        BadRow: any other value.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadRow(f"no {name}", f"{name!r} is {value!r:.40}; expected text or a whole number")
    if not str(value).strip():
        raise BadRow(f"empty {name}", f"the {name} is empty")
    return one_line(str(value))


def count(value: object, name: str, default: int = 0) -> int:
    """A count of clicks or impressions: a whole number from 0 to 2**40; empty means the default.

    >>> count("3", "clicks"), count("3.0", "clicks"), count("", "clicks", default=1)
    (3, 3, 1)

    Args:
        value: the cell.
        name: name of the column.
        default: count of an empty cell.

    Raises:
        BadRow: the cell has any other value.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return default
    if isinstance(value, str) and _THOUSANDS.fullmatch(value.strip()):
        raise BadRow(
            f"{name} with a thousands separator",
            f"{name} is {value!r:.40}; write it without a thousands separator",
        )
    try:
        number = read_number(value)
    except OverflowError:
        raise BadRow(f"{name} is too large") from None
    except (TypeError, ValueError):
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


def lost_clicks(value: str | None) -> int | None:
    """Estimates the clicks of a rejected row from its cell; None if the cell has no number.

    An empty cell counts as one click, as in other rows. A malformed number counts as the largest
    number of clicks that it may mean.

    >>> [lost_clicks(cell) for cell in ("24", "8,270", "8.270", "8.3k", "2.5", "-4", "", "many")]
    [24, 8270, 8270, 8300, 3, 4, 1, None]
    """
    cell = (value or "").strip().strip("\"'").strip()
    with suppress(BadRow):
        return count(cell, "clicks", 1)
    if _THOUSANDS.fullmatch(cell):
        cell = re.sub(r"[.,]0*$", "", cell) if re.search(r"[.,]0{1,2}$", cell) else cell
        return min(int(re.sub(r"[^0-9]", "", cell)), MAX_COUNT)
    number = _ALMOST_A_COUNT.fullmatch(cell)
    if not number:
        return None
    digits, unit = number.groups()
    clicks = float(digits) * {"k": 1e3, "m": 1e6}.get(unit.lower(), 1)
    return math.ceil(clicks) if clicks <= MAX_COUNT else MAX_COUNT


def number(
    value: object, name: str, minimum: float = -math.inf, maximum: float = math.inf
) -> float:
    """A number within limits.

    Raises:
        BadRow: the cell is not a number, or it is outside the limits.
    """
    try:
        result = read_number(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if math.isnan(result):
        raise BadRow(f"{name} is not a number", f"{name} {value!r:.40} is not a number")
    if not minimum <= result <= maximum:
        raise BadRow(
            f"{name} out of range",
            f"{name} {value!r:.40}; expected a number from {minimum:g} to {maximum:g}",
        )
    return result


def grade(value: object, name: str = "grade") -> float:
    """A grade from 0 to 100; raises as `number` does."""
    return number(value, name, 0, MAX_GRADE)


def shown_text(text: str, length: int = 200) -> str:
    """A text on one line, truncated to `length` characters, for pages and the terminal.

    >>> shown_text(" red shoe "), shown_text("red shoe" * 100000, 4)
    ('red shoe', 'red…')
    """
    line = one_line(text[: 2 * length]).strip(" ")
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def printable(text: str) -> str:
    """A text on one line, without control characters, which could move the cursor."""
    return "".join(c if c.isprintable() else " " for c in one_line(text))


def one_line(text: str) -> str:
    """Replaces tabs and line ends with spaces, and surrogates with U+FFFD.

    Surrogates stand for bytes that were not UTF-8. JSON can contain them; UTF-8 files cannot.
    """
    return text.translate(_BREAKS) if not text.isprintable() else text
