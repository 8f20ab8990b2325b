import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.significance import (
    bootstrap_intervals,
    holm,
    paired_t_test,
    sign_flip_test,
)


def column(values):
    return np.array(values, dtype=float)[:, None]


def test_t_test_of_three_queries_by_hand():
    # mean 2, s = 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3; with 2 degrees of freedom
    # P(|T| > t) = 1 - t / sqrt(2 + t^2)
    t = 2 * np.sqrt(3)
    assert paired_t_test(column([1, 2, 3]))[0] == pytest.approx(1 - t / np.sqrt(2 + t * t))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40))
def test_t_test_equals_scipy(pairs):
    a, b = np.array(pairs).T
    difference = a - b
    if np.std(difference) > 1e-6:
        assert paired_t_test(column(difference))[0] == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_t_test_without_a_difference_or_with_one_query_finds_nothing():
    assert paired_t_test(np.zeros((5, 1))) == [1.0]
    assert paired_t_test(column([0.3])) == [1.0]
    assert paired_t_test(np.zeros((0, 2))).tolist() == [1.0, 1.0]
    assert paired_t_test(np.full((5, 1), 0.1)) == [0.0]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_tests_do_not_care_which_system_comes_first(values):
    both = np.stack([values, np.negative(values)], axis=1)
    for p in (paired_t_test(both), sign_flip_test(both, samples=64)):
        assert p[0] == pytest.approx(p[1])
        assert 0 <= p[0] <= 1
    low, high = bootstrap_intervals(both, samples=200)
    assert low == pytest.approx(-high[::-1])


def test_bootstrap_of_two_queries_by_hand():
    # Means 0, 1/2, 1 with chances 1/4, 1/2, 1/4: 20 % lie in the tails of a 60 % interval.
    both = bootstrap_intervals(column([0, 1]), samples=4000, confidence=0.6)
    assert both.tolist() == [[0.0, 1.0]]
    assert bootstrap_intervals(column([0, 1]), samples=4000, confidence=0.4).tolist() == [
        [0.5, 0.5]
    ]


def test_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(0).normal(0.1, 1, 300)
    scipy = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1)
    ).confidence_interval
    # The ends of both are themselves estimates, with an error of about 0.002 here.
    assert bootstrap_intervals(column(values))[0] == pytest.approx(
        [scipy.low, scipy.high], abs=0.008
    )


def test_bootstrap_covers_the_true_mean_as_often_as_it_says():
    random = np.random.default_rng(0)
    table = random.normal(0, 1, (60, 400))  # 400 experiments whose true mean is 0
    intervals = bootstrap_intervals(table, samples=1000)
    covered = ((intervals[:, 0] <= 0) & (intervals[:, 1] >= 0)).mean()
    # 0.95, less a little because percentile intervals are short; binomial error 0.011
    assert 0.90 < covered < 0.98


def test_bootstrap_depends_on_its_seed_only():
    values = np.random.default_rng(0).normal(size=(50, 3))
    assert (bootstrap_intervals(values, seed=3) == bootstrap_intervals(values, seed=3)).all()
    # Each comparison sees the same queries, whatever stands beside it.
    alone = bootstrap_intervals(values[:, 1:2], seed=3)[0]
    assert alone == pytest.approx(bootstrap_intervals(values, seed=3)[1])
    assert (bootstrap_intervals(values, seed=3) != bootstrap_intervals(values, seed=4)).any()


def test_sign_flips_of_three_queries_by_hand():
    # 8 patterns; only +++ and --- reach a sum of 6
    assert sign_flip_test(column([1, 2, 3])) == [2 / 8]
    # 1 + 2 - 3 = 0: every pattern is at least that far out
    assert sign_flip_test(column([1, 2, -3])) == [1.0]


def test_sign_flips_of_more_than_a_thousand_queries_do_not_overflow():
    # 2^1100 patterns: more than a floating-point number holds. No sampled one is as extreme.
    assert sign_flip_test(column([1] * 1100), samples=99) == [1 / 100]


def test_sampled_sign_flips_agree_with_scipy():
    values = np.random.default_rng(2).normal(0.3, 1, 40)
    scipy = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=20_000,
        rng=np.random.default_rng(3),
    ).pvalue  # fmt: skip
    assert sign_flip_test(column(values), samples=20_000)[0] == pytest.approx(scipy, abs=0.01)
    assert 0.01 < scipy < 0.2  # the comparison means something


def test_a_sampled_p_counts_the_pattern_seen_and_is_never_zero():
    # 30 equal differences: no random pattern of 99 reaches the sum, so p = 1 / (99 + 1)
    assert sign_flip_test(np.ones((30, 1)), samples=99) == [1 / 100]


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
