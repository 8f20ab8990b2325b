"""Paired t-tests and Holm's correction: by hand, and those of SciPy."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.evaluate import compare
from dssm_tf.evaluation.evaluation import Row, SeedResult
from dssm_tf.evaluation.significance import holm, paired_t_test


def test_t_test_of_three_queries_by_hand():
    # mean 2, s = 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3; with 2 degrees of freedom
    # P(|T| > t) = 1 - t / sqrt(2 + t^2)
    t = 2 * np.sqrt(3)
    assert paired_t_test([1, 2, 3]).p == pytest.approx(1 - t / np.sqrt(2 + t * t))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40))
def test_the_t_test_equals_scipys_in_either_order_of_the_samples(pairs):
    a, b = np.array(pairs).round(6).T
    if np.std(a - b) > 1e-4:
        p, (low, high) = paired_t_test(a - b)
        assert p == pytest.approx(stats.ttest_rel(a, b).pvalue)
        assert low <= np.mean(a - b) <= high
        assert paired_t_test(b - a) == (pytest.approx(p), pytest.approx((-high, -low)))


@pytest.mark.parametrize(
    ("differences", "p", "interval"),
    [
        (np.zeros(5), 1.0, (0.0, 0.0)),
        ([0.3], 1.0, (-1.0, 1.0)),
        ([], 1.0, (-1.0, 1.0)),
        # Two of the 2^n ways to flip signs have a mean as far from 0 as that of equal differences.
        (np.full(5, 0.1), 2 / 32, (-1.0, 1.0)),
        (np.full(6, 0.1), 2 / 64, (0.1, 0.1)),
        ([0.3 - 0.2, 0.5 - 0.4], 2 / 4, (-1.0, 1.0)),  # equal but for rounding
    ],
)
def test_without_a_spread_or_with_one_query_the_test_is_defined(differences, p, interval):
    result = paired_t_test(differences)
    assert result == (p, pytest.approx(interval))


def test_holm_by_hand():
    # sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04, then never falling
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_only_raises(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= np.array(p_values)).all()
    assert (adjusted <= np.minimum(1, len(p_values) * np.array(p_values)) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()


def test_p_is_adjusted_over_all_tests_of_an_evaluation():
    random = np.random.default_rng(1)

    def row(name, shift):
        values = pl.DataFrame({"m": random.random(50) + shift, "n": random.random(50)})
        return Row(name, "run", [SeedResult(None, values, [])])

    all_queries = np.ones(50, bool)
    a, b, c = row("a", 0.0), row("b", 0.1), row("c", 0.2)
    tests = [test for test in compare([a, b, c], ["m", "n"], all_queries) if test.metric == "m"]
    assert [(t.a, t.b) for t in tests] == [("b", "a"), ("c", "a"), ("c", "b")]
    smallest = min(tests, key=lambda test: test.p)
    assert smallest.p_adjusted == pytest.approx(6 * smallest.p)  # three pairs by two metrics
    only = compare([a, b, c], ["m"], all_queries, [(b, a), (c, a)])
    assert [(t.a, t.b) for t in only] == [("b", "a"), ("c", "a")]
    assert min(t.p_adjusted for t in only) == pytest.approx(2 * smallest.p)
