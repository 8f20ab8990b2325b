"""The parts of a built-in metric, and the columns that its expression reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

rank = pl.col("rank")
"""Rank of a relevant title, from 1; null or NaN if the title is not ranked."""

grade = pl.col("grade")
"""Grade of a relevant title, above 0."""

highest_grade = pl.col("highest_grade")
"""The highest grade of all queries, repeated in every row."""

gain = 2.0**grade - 1
"""Gain of a relevant title, `2^grade - 1`."""


class BuiltInMetric(NamedTuple):
    """A built-in metric without its cut-off.

    Attributes:
        compute: takes the cut-off and returns an expression that computes the metric from the
            relevant titles of one query.
        label: heading of its column in tables.
        default_cutoff: the cut-off if the name has none; None if a name must have one.
    """

    compute: Callable[[int], pl.Expr]
    label: str
    default_cutoff: int | None = None
