"""Boosts: numbers of the catalog that are added to scores, such as sales or stock.

A boost has a column of the catalog and a weight. With the number `x` of a title,

    score = similarity + prior + remembered clicks + sum over boosts of weight * ln(1 + x)

A title without a number gets 0. The numbers of a column must be at least 0. A negative weight ranks
titles with large numbers lower, such as expensive ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite, log1p, nan
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.numbers import read_number

Boosts = Mapping[str, float]
"""The weight by the name of a column."""


class AppliedBoost(NamedTuple):
    """A boost and the number of one title.

    Attributes:
        column: the name of the column.
        weight: the weight.
        value: the number of the title; None if it has none.
    """

    column: str
    weight: float
    value: float | None

    @property
    def part(self) -> float:
        """The part of the score, `weight * ln(1 + value)`.

        >>> AppliedBoost("sales", 0.5, 0.0).part, AppliedBoost("sales", 0.5, None).part
        (0.0, 0.0)
        """
        return 0.0 if self.value is None else self.weight * log1p(self.value)

    def __str__(self) -> str:
        if self.value is None:
            return f"The title has no {self.column} (+0.000)."
        value = plain_number(self.value)
        return (
            f"The {self.column} {value} adds {plain_number(self.weight)} × ln(1 + {value}) = "
            f"{self.part:+.3f}."
        )


def plain_number(number: float) -> str:
    """A number with all its digits.

    >>> plain_number(1234567.0), plain_number(49.9)
    ('1234567', '49.9')
    """
    number = float(number)
    return str(int(number)) if number.is_integer() else repr(number)


def parse_boosts(texts: Iterable[str]) -> dict[str, float]:
    """Parses boosts such as `sales=0.02`.

    Raises:
        UserError: a boost has another form, or a column is named twice.

    >>> parse_boosts(["sales=0.02", "price=-0.1"])
    {'sales': 0.02, 'price': -0.1}
    """
    boosts: dict[str, float] = {}
    for text in texts:
        column, _, weight = text.rpartition("=")
        try:
            number = read_number(weight)
        except ValueError:
            number = nan
        if not column or not isfinite(number):
            raise UserError(f"--boost {text!r:.100}: expected COLUMN=WEIGHT, such as sales=0.02.")
        if column in boosts:
            raise UserError(f"--boost {text!r:.100}: {column} has a boost already.")
        boosts[column] = number
    return boosts


def parts_of_boosts(boosts: tuple[AppliedBoost, ...]) -> dict[str, float]:
    """The parts of the score by their names in JSON, such as `boost_sales`."""
    return {f"boost_{boost.column}": boost.part for boost in boosts}
