"""Is a difference between two systems more than luck? Paired, over queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

SIGNIFICANT = 0.05


class Comparison(NamedTuple):
    """Whether system `a` beats system `b` on one metric.

    `difference` is the mean of `a - b` over queries, `ci95` its 95 %
    interval, `p` of the paired t-test, `p_adjusted` after Holm's adjustment over
    all tests made together.
    """

    a: str
    b: str
    metric: str
    p: float
    p_adjusted: float
    difference: float
    ci95: tuple[float, float]


class PairedTest(NamedTuple):
    """Two-sided p-values `(comparisons,)`, and 95 % intervals of means `(comparisons, 2)`."""

    p: NDArray[np.float64]
    ci95: NDArray[np.float64]


def paired_t_test(differences: ArrayLike) -> PairedTest:
    """Student's paired t-test.

    `t = mean / (s / sqrt(n))` with `n - 1` degrees of freedom. Without any
    difference, or with a single query, nothing speaks against luck: p = 1.

    Args:
        differences: `(queries, comparisons)`, from -1 to 1.
    """
    table = np.asarray(differences, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(
            f"differences have the shape {table.shape}; expected (queries, comparisons)."
        )
    queries, comparisons = table.shape
    if queries < 2:
        return PairedTest(np.ones(comparisons), np.tile([-1.0, 1.0], (comparisons, 1)))
    mean = table.mean(axis=0)
    # Equal differences everywhere: no spread at all, so any mean is certain. What
    # rounding leaves of the spread must not decide.
    constant = np.ptp(table, axis=0) == 0
    error = np.where(constant, 0.0, table.std(axis=0, ddof=1) / math.sqrt(queries))
    t = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)
    p = np.where(constant & (mean != 0), 0.0, 2 * stats.t.sf(np.abs(t), df=queries - 1))
    half = stats.t.ppf(0.975, queries - 1) * error
    return PairedTest(p, np.stack([mean - half, mean + half], axis=1).clip(-1, 1))


def holm(p_values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's adjustment for many comparisons.

    With `p(1) <= ... <= p(m)`: adjusted `p(i) = max over j <= i of min(1, (m - j + 1) p(j))`.
    Calling what stays below 0.05 significant, the chance of any false call is
    at most 0.05.

    Args:
        p_values: `(comparisons,)`.

    Returns:
        `(comparisons,)`, in the given order.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(stepped)
    return adjusted


def compare(
    values: Mapping[str, Mapping[str, NDArray[np.float64]]],
    metrics: Sequence[str],
    pairs: Sequence[tuple[str, str]] | None = None,
) -> list[Comparison]:
    """Tests pairs of systems; Holm's adjustment counts all tests together.

    Args:
        values: `values[system][metric]` is `(queries,)`, NaN where left out.
        metrics: which to test.
        pairs: systems `(a, b)` to test; by default every system against each before it.

    Returns:
        Comparisons, metric by metric.
    """
    if pairs is None:
        pairs = [(later, earlier) for earlier, later in combinations(values, 2)]
    if not pairs:
        return []
    columns = [values[a][metric] - values[b][metric] for metric in metrics for a, b in pairs]
    table = np.stack(columns, axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    p, intervals = paired_t_test(table)
    p_adjusted = holm(p)
    means = table.mean(axis=0) if len(table) else np.zeros(table.shape[1])
    tested = [(a, b, metric) for metric in metrics for a, b in pairs]
    return [
        Comparison(
            a,
            b,
            metric,
            p=float(p[place]),
            p_adjusted=float(p_adjusted[place]),
            difference=float(means[place]),
            ci95=(float(intervals[place, 0]), float(intervals[place, 1])),
        )
        for place, (a, b, metric) in enumerate(tested)
    ]
