"""Reads numbers that users write."""

from __future__ import annotations


def read_number(value: object) -> float:
    """A number as Python reads it, except for booleans and underscores.

    >>> read_number("2.5"), read_number(3)
    (2.5, 3.0)
    >>> read_number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a number

    Raises:
        ValueError: a boolean, or a text that is not a number. Python reads `1_0` as 10; in a file,
            it is a typing error for 1.0.
        TypeError: the value is neither a number nor a text.
        OverflowError: a whole number is too large.
    """
    if isinstance(value, bool) or "_" in str(value):
        raise ValueError(f"{value!r:.60} is not a number")
    return float(value)  # type: ignore[arg-type]
