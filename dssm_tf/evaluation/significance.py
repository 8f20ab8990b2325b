"""Significance of the difference between two systems: paired tests over queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

SIGNIFICANCE_LEVEL = 0.05
"""A difference is significant if its adjusted p-value is below this."""


class Comparison(NamedTuple):
    """A test of system `a` against system `b` on one metric.

    `difference` is the mean of `a - b` over queries, `ci95` its 95 % interval, `p` the p-value of
    the paired t-test, and `p_adjusted` the p-value after Holm's adjustment over all tests of the
    evaluation.
    """

    a: str
    b: str
    metric: str
    p: float
    p_adjusted: float
    difference: float
    ci95: tuple[float, float]


class TTest(NamedTuple):
    """The p-value of a paired t-test, and the 95 % interval of the mean difference."""

    p: float
    ci95: tuple[float, float]


def paired_t_test(differences: ArrayLike) -> TTest:
    """Student's paired t-test, two-sided, and the 95 % interval of the mean difference.

    If all differences are 0, or there are fewer than two queries, p is 1. If all `n` differences
    equal another value, their variance is unknown and t is not defined. Then p is that of the exact
    sign-flip test, `2 / 2^n`, and the interval is that value if p is below `SIGNIFICANCE_LEVEL`,
    else -1 to 1.

    Args:
        differences: `(queries,)`, from -1 to 1.
    """
    # Differences that are equal except for rounding must count as equal.
    rounded = np.asarray(differences, np.float64).round(9)
    if len(rounded) < 2:
        return TTest(1.0, (-1.0, 1.0))
    if np.ptp(rounded) == 0:
        value = float(rounded[0])
        p = 1.0 if value == 0 else 2.0 ** (1 - len(rounded))
        is_known = value == 0 or p < SIGNIFICANCE_LEVEL
        return TTest(p, (value, value) if is_known else (-1.0, 1.0))
    test = stats.ttest_1samp(rounded, 0)
    low, high = np.clip(test.confidence_interval(), -1, 1)
    return TTest(float(test.pvalue), (float(low), float(high)))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjustment of p-values for multiple comparisons, in the order of the input.

    With `p(1) <= ... <= p(m)`: adjusted `p(i) = max over j <= i of min(1, (m - j + 1) p(j))`.
    If adjusted values below 0.05 are called significant, the probability of any false positive is
    at most 0.05.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted: NDArray[np.float64] = np.maximum.accumulate(stepped)[np.argsort(order)]
    return adjusted
