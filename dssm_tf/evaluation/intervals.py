"""Confidence intervals of means over queries, and a warning about few queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FEW_QUERIES = 200
"""Means over fewer queries get a warning, see `small_sample_warning`."""

_TAIL = 0.025  # probability on either side of a 95 % interval


def mean_intervals(values: ArrayLike) -> NDArray[np.float64]:
    """95 % intervals of means over queries, by Student's t, for values from 0 to 1.

        mean -+ t(n - 1) s / sqrt(n)

    `n` is the number of queries with a value, `s^2` their variance. If all values are 0, or all
    are 1, the variance is 0 and this interval would be too narrow. The Clopper-Pearson bound
    replaces it: `0.025^(1/n)` is the lower end if all values are 1, and `1 - 0.025^(1/n)` the upper
    end if all are 0.

    Args:
        values: `(queries, columns)`, NaN for queries that a mean leaves out.

    Returns:
        `(columns, 2)`, low and high, from 0 to 1; 0 and 1 for fewer than two queries.

    Reference: Clopper and Pearson 1934.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[~np.isnan(table).all(axis=1)]
    missing = np.isnan(table)
    queries = np.count_nonzero(~missing, axis=0)
    enough = queries >= 2
    if not enough.all():
        intervals = np.tile([0.0, 1.0], (table.shape[1], 1))
        if enough.any():
            intervals[enough] = mean_intervals(table[:, enough])
        return intervals
    mean = np.nanmean(table, axis=0)
    error = np.nanstd(table, axis=0, ddof=1) / np.sqrt(queries)
    half_width = special.stdtrit(queries - 1, 1 - _TAIL) * error
    all_equal_bound = _TAIL ** (1 / queries)
    low = np.where((missing | (table == 1)).all(axis=0), all_equal_bound, mean - half_width)
    high = np.where((missing | (table == 0)).all(axis=0), 1 - all_equal_bound, mean + half_width)
    return np.stack([low, high], axis=1).clip(0, 1)


def interval(low: float, high: float) -> str:
    """Both ends as tables print them.

    >>> interval(0.5704, 1.0)
    '.570-1.00'
    """
    return "-".join(f"{end:.3f}"[1:] if end < 0.9995 else "1.00" for end in (low, high))


def small_sample_warning(subject: str, queries: float, source: str = "") -> list[str]:
    """A sentence that warns of a mean over few queries; empty if there are enough queries.

    >>> small_sample_warning("It is based on", 200), small_sample_warning("It is based on", 13)
    ([], ['It is based on 13 queries, fewer than 200: other queries may give different figures.'])

    Args:
        subject: beginning of the sentence, which the number of queries follows.
        queries: number of queries.
        source: words about the queries that follow their number, such as `made from titles`.
    """
    if queries >= FEW_QUERIES:
        return []
    count = f"{queries:.0f} {'query' if queries == 1 else 'queries'}"
    count = f"{count} {source}" if source else count
    return [
        f"{subject} {count}, fewer than {FEW_QUERIES}: other queries may give different figures."
    ]
