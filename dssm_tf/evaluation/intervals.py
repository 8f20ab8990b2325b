"""How far a mean over queries can be trusted: its interval, and a word where queries are few."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FEW_QUERIES = 200
"""Of a mean over fewer queries it is said that it rests on few."""

_TAIL = 0.025  # on either side of a 95 % interval


def mean_intervals(values: ArrayLike) -> NDArray[np.float64]:
    """95 % intervals of the means over queries of numbers from 0 to 1, by Student's t.

        mean -+ t(n - 1) s / sqrt(n)

    over the `n` queries with a value; `s^2` is their variance. Where every value is 0, or every one
    1, the spread says nothing: the interval then ends where that would happen with probability
    0.025, at `0.025^(1/n)` for 1.

    Args:
        values: `(queries, columns)`, NaN for queries that the means leave out.

    Returns:
        `(columns, 2)`, low and high, from 0 to 1; all of 0 to 1 for a single query or none.

    Reference: Clopper and Pearson 1934 for 0 and 1.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[~np.isnan(table).any(axis=1)]
    queries = len(table)
    if queries < 2:
        return np.tile([0.0, 1.0], (table.shape[1], 1))
    mean = table.mean(axis=0)
    half = stats.t.ppf(1 - _TAIL, queries - 1) * stats.sem(table)
    sure = _TAIL ** (1 / queries)
    low = np.where((table == 1).all(axis=0), sure, mean - half)
    high = np.where((table == 0).all(axis=0), 1 - sure, mean + half)
    return np.stack([low, high], axis=1).clip(0, 1)


def interval(low: float, high: float) -> str:
    """Both ends as tables show them.

    >>> interval(0.5704, 1.0)
    '.570-1.00'
    """
    return "-".join(f"{end:.3f}"[1:] if end < 0.9995 else "1.00" for end in (low, high))


def small_sample_warning(what: str, queries: float) -> list[str]:
    """A sentence about a figure that rests on few queries; none where they are enough.

    >>> small_sample_warning("It rests on", 200), small_sample_warning("It rests on", 13)
    ([], ['It rests on 13 queries, fewer than 200: other queries may give different figures.'])

    Args:
        what: rests on them, in words that the number can follow.
        queries: their number.
    """
    if queries >= FEW_QUERIES:
        return []
    few = f"{queries:.0f} {'query' if queries == 1 else 'queries'}"
    return [f"{what} {few}, fewer than {FEW_QUERIES}: other queries may give different figures."]
