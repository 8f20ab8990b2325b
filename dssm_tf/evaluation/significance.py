"""Is a difference between two systems more than luck? Paired, over queries.

All functions take differences as `(queries, comparisons)`, so every pair of
systems and every metric is tested with the same resampled queries in one
matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

SIGNIFICANT = 0.05
_CELLS = 1 << 22  # of one block of resampled queries: 32 MiB


class Comparison(NamedTuple):
    """Whether system `a` beats system `b` on one metric.

    `difference` is the mean of `a - b` over queries, `ci95` its bootstrap
    interval, `p` of the paired t-test, `p_adjusted` after Holm's adjustment
    (see `compare` for what it counts together), `p_randomisation` of the sign
    flip test, as a check of `p` that assumes no distribution.
    """

    a: str
    b: str
    metric: str
    p: float
    p_adjusted: float
    p_randomisation: float
    difference: float
    ci95: tuple[float, float]


def paired_t_test(differences: ArrayLike) -> NDArray[np.float64]:
    """Two-sided p-values of Student's paired t-test.

    `t = mean / (s / sqrt(n))` with `n - 1` degrees of freedom. Without any
    difference, or with a single query, nothing speaks against luck: p = 1.

    Args:
        differences: `(queries, comparisons)`.

    Returns:
        `(comparisons,)`, from 0 to 1.
    """
    table = _table(differences)
    queries = len(table)
    if queries < 2:
        return np.ones(table.shape[1])
    mean = table.mean(axis=0)
    error = table.std(axis=0, ddof=1) / math.sqrt(queries)
    # Equal differences everywhere: no spread at all, so any mean is certain. What
    # rounding leaves of the spread must not decide.
    constant = np.ptp(table, axis=0) == 0
    t = np.divide(mean, error, out=np.zeros_like(mean), where=~constant & (error > 0))
    p = 2 * stats.t.sf(np.abs(t), df=queries - 1)
    return np.where(constant, np.where(mean == 0, 1.0, 0.0), p)


def bootstrap_intervals(
    differences: ArrayLike, *, samples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> NDArray[np.float64]:
    """Percentile intervals of the mean difference, queries drawn with replacement.

    Args:
        differences: `(queries, comparisons)`.
        samples: how many times the queries are drawn.
        confidence: share of the resampled means inside the interval.
        seed: of the draws; the same queries are drawn for every comparison.

    Returns:
        `(comparisons, 2)`, low and high.
    """
    table = _table(differences)
    queries = len(table)
    if not queries:
        return np.zeros((table.shape[1], 2))
    random = np.random.default_rng(seed)
    means = []
    for rows in _blocks(samples, queries):
        # counts[s, q]: how often sample s holds query q.
        drawn = random.integers(queries, size=(rows, queries))
        drawn += queries * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * queries).reshape(rows, queries)
        means.append(counts.astype(np.float64) @ table / queries)
    tail = (1 - confidence) / 2
    ends: NDArray[np.float64] = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return np.transpose(ends)


def sign_flip_test(
    differences: ArrayLike, *, samples: int = 10_000, seed: int = 0
) -> NDArray[np.float64]:
    """Two-sided p-values of Fisher's randomisation test: each query's sign may flip.

    The share of sign patterns whose mean is at least as far from 0 as the one
    seen: over all `2^queries` patterns when `samples` allows, else over random
    ones and the one seen.

    Args:
        differences: `(queries, comparisons)`.
        samples: how many patterns are tried.
        seed: of the patterns.

    Returns:
        `(comparisons,)`, above 0.
    """
    table = _table(differences)
    queries = len(table)
    # Sums that differ by rounding only are the same sum.
    seen = np.abs(table.sum(axis=0)) - 1e-12 * np.abs(table).sum(axis=0)
    if 2**queries <= samples:  # whole numbers, which do not overflow
        patterns = np.arange(2**queries)[:, None] >> np.arange(queries)
        signs = 1.0 - 2.0 * (patterns & 1)
        share: NDArray[np.float64] = (np.abs(signs @ table) >= seen).mean(axis=0)
        return share
    random = np.random.default_rng(seed)
    extreme = np.ones(table.shape[1])  # the pattern seen
    for rows in _blocks(samples, queries):
        signs = 2.0 * random.integers(2, size=(rows, queries)) - 1.0
        extreme += (np.abs(signs @ table) >= seen).sum(axis=0)
    return extreme / (samples + 1)


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
    *,
    against: Sequence[str] | None = None,
    family: Literal["metric", "table"] = "metric",
    samples: int = 10_000,
) -> list[Comparison]:
    """Tests every pair of systems, the later one against the earlier.

    Args:
        values: `values[system][metric]` is `(queries,)`, NaN where left out.
        metrics: which to test.
        against: pairs with one of these systems only; None tests all.
        family: which tests Holm's adjustment counts together: the pairs of a metric, or
            those of all metrics.
        samples: of the bootstrap and of the randomisation test.

    Returns:
        Comparisons, metric by metric.
    """
    pairs = [
        (later, earlier)
        for earlier, later in combinations(values, 2)
        if against is None or later in against or earlier in against
    ]
    if not pairs:
        return []
    columns = [values[a][metric] - values[b][metric] for metric in metrics for a, b in pairs]
    table = np.stack(columns, axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    p = paired_t_test(table).reshape(len(metrics), len(pairs))
    families = p if family == "metric" else p.reshape(1, -1)
    p_adjusted = np.concatenate([holm(row) for row in families])
    p_randomisation = sign_flip_test(table, samples=samples)
    intervals = bootstrap_intervals(table, samples=samples)
    means = table.mean(axis=0) if len(table) else np.zeros(table.shape[1])
    tested = [(a, b, metric) for metric in metrics for a, b in pairs]
    return [
        Comparison(
            a,
            b,
            metric,
            p=float(p.flat[place]),
            p_adjusted=float(p_adjusted[place]),
            p_randomisation=float(p_randomisation[place]),
            difference=float(means[place]),
            ci95=(float(intervals[place, 0]), float(intervals[place, 1])),
        )
        for place, (a, b, metric) in enumerate(tested)
    ]


def _table(differences: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(differences, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(
            f"differences have the shape {table.shape}; expected (queries, comparisons)."
        )
    return table


def _blocks(samples: int, queries: int) -> list[int]:
    """Splits samples so that a block of resampled queries stays small."""
    size = max(1, _CELLS // max(1, queries))
    return [min(size, samples - start) for start in range(0, samples, size)]
