"""Is a difference between two systems more than luck? Paired, over queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

SIGNIFICANT = 0.05


class Comparison(NamedTuple):
    """Whether system `a` beats system `b` on one metric.

    `difference` is the mean of `a - b` over queries, `ci95` its 95 % interval, `p` of the paired
    t-test, `p_adjusted` after Holm's adjustment over all tests made together.
    """

    a: str
    b: str
    metric: str
    p: float
    p_adjusted: float
    difference: float
    ci95: tuple[float, float]


def paired_t_test(differences: ArrayLike) -> tuple[float, tuple[float, float]]:
    """Student's paired t-test, two-sided: p, and the 95 % interval of the mean.

    Without any difference, or with a single query, nothing speaks against luck: p = 1. Where all
    differences are the same, the mean is certain.

    Args:
        differences: `(queries,)`, from -1 to 1.
    """
    # What rounding leaves of the spread must not decide.
    found = np.asarray(differences, np.float64).round(9)
    if len(found) < 2:
        return 1.0, (-1.0, 1.0)
    if np.ptp(found) == 0:
        return float(found[0] == 0), (float(found[0]), float(found[0]))
    test = stats.ttest_1samp(found, 0)
    low, high = np.clip(test.confidence_interval(), -1, 1)
    return float(test.pvalue), (float(low), float(high))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjustment for many comparisons, in the order given.

    With `p(1) <= ... <= p(m)`: adjusted `p(i) = max over j <= i of min(1, (m - j + 1) p(j))`.
    Calling what stays below 0.05 significant, the chance of any false call is at most 0.05.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted: NDArray[np.float64] = np.maximum.accumulate(stepped)[np.argsort(order)]
    return adjusted
