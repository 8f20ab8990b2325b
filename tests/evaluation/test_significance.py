import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.significance import (
    holm,
    paired_t_test,
)


def column(values):
    return np.array(values, dtype=float)[:, None]


def test_t_test_of_three_queries_by_hand():
    # mean 2, s = 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3; with 2 degrees of freedom
    # P(|T| > t) = 1 - t / sqrt(2 + t^2)
    t = 2 * np.sqrt(3)
    assert paired_t_test(column([1, 2, 3])).p[0] == pytest.approx(1 - t / np.sqrt(2 + t * t))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40))
def test_t_test_equals_scipy(pairs):
    a, b = np.array(pairs).T
    difference = a - b
    if np.std(difference) > 1e-6:
        assert paired_t_test(column(difference)).p[0] == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_t_test_without_a_difference_or_with_one_query_finds_nothing():
    for differences, p, interval in (
        (np.zeros((5, 1)), 1.0, [0.0, 0.0]),
        (column([0.3]), 1.0, [-1.0, 1.0]),
        (np.zeros((0, 1)), 1.0, [-1.0, 1.0]),
        (np.full((5, 1), 0.1), 0.0, [0.1, 0.1]),
    ):
        found = paired_t_test(differences)
        assert found.p == [p]
        assert found.ci95[0] == pytest.approx(interval)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_tests_do_not_care_which_system_comes_first(values):
    both = np.stack([values, np.negative(values)], axis=1)
    p, (low, high) = paired_t_test(both)
    assert p[0] == pytest.approx(p[1])
    assert 0 <= p[0] <= 1
    assert low == pytest.approx(-high[::-1])


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=40))
def test_intervals_equal_scipy(values):
    if np.std(values) > 1e-6:
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert paired_t_test(column(values)).ci95[0] == pytest.approx(np.clip(expected, -1, 1))


def test_holm_by_hand():
    # sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04, then never falling
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_holm_keeps_the_order_and_only_raises(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= np.array(p_values)).all()
    assert (adjusted <= np.minimum(1, len(p_values) * np.array(p_values)) + 1e-15).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


def test_one_dimension_is_refused():
    with pytest.raises(ValueError, match=r"\(queries, comparisons\)"):
        paired_t_test([1.0, 2.0])
