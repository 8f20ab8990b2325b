"""Intervals of means, compared with SciPy's, and their coverage in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.intervals import mean_intervals, small_sample_warning


def column(values):
    return np.array(values, dtype=float)[:, None]


def test_the_interval_is_that_of_students_t_distribution():
    values = np.random.default_rng(0).random((30, 2))
    expected = stats.t.interval(0.95, 29, values.mean(axis=0), stats.sem(values, axis=0))
    assert mean_intervals(values) == pytest.approx(np.transpose(expected))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_queries_left_out_do_not_count(values):
    plain = mean_intervals(column(values))
    assert mean_intervals(column([*values, np.nan])) == pytest.approx(plain)
    assert ((plain >= 0) & (plain <= 1)).all()


def test_each_column_leaves_out_its_own_queries():
    values = np.random.default_rng(0).random((30, 3))
    gaps = values.copy()
    gaps[:4, 0] = gaps[9:, 1] = gaps[7, :] = np.nan
    gaps[1:, 2] = np.nan
    expected = [mean_intervals(column(gaps[:, i]))[0].tolist() for i in range(3)]
    assert mean_intervals(gaps).tolist() == [pytest.approx(interval) for interval in expected]
    assert mean_intervals(gaps)[2].tolist() == [0, 1]
    all_correct = np.stack([[*[1.0] * 13, np.nan], np.linspace(0, 1, 14)], axis=1)
    assert mean_intervals(all_correct)[0] == pytest.approx([0.753, 1], abs=5e-4)
    assert mean_intervals(1 - all_correct)[0] == pytest.approx([0, 0.247], abs=5e-4)


def test_the_interval_is_not_empty_if_all_of_thirteen_queries_are_correct():
    # If each query is correct with probability p, all 13 are with probability p^13, which is 0.025
    # at p = 0.025^(1/13) = 0.753.
    assert mean_intervals(column([1.0] * 13))[0] == pytest.approx([0.753, 1], abs=5e-4)
    assert mean_intervals(column([0.0] * 13))[0] == pytest.approx([0, 0.247], abs=5e-4)
    assert mean_intervals(column([0.7]))[0].tolist() == [0, 1]
    assert mean_intervals(np.zeros((0, 1)))[0].tolist() == [0, 1]


def test_about_95_of_100_intervals_contain_the_mean():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        values = random.beta(2, 1, (60, 1))  # mean 2/3
        low, high = mean_intervals(values)[0]
        covered += low <= 2 / 3 <= high
    assert 0.92 < covered / 400 < 0.98


def test_a_mean_over_fewer_than_two_hundred_queries_has_a_warning():
    assert small_sample_warning("It is based on", 200) == []
    (sentence,) = small_sample_warning("It is based on", 199)
    assert sentence.startswith("It is based on 199 queries, fewer than 200: ")
    assert small_sample_warning("It is based on", 1)[0].startswith("It is based on 1 query, ")
