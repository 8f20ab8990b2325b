"""Intervals of means: Student's t by SciPy, weights by hand, coverage by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dssm_tf.evaluation.intervals import caution, mean_intervals, queries_in_effect


def column(values):
    return np.array(values, dtype=float)[:, None]


def test_without_weights_it_is_students_interval():
    values = np.random.default_rng(0).random((30, 2))
    expected = stats.t.interval(0.95, 29, values.mean(axis=0), stats.sem(values, axis=0))
    assert mean_intervals(values) == pytest.approx(np.transpose(expected))


def test_weights_by_hand():
    # Weights 3/4 and 1/4 of the values 1/2 and 1/4: mean 7/16; deviations 1/16 and -3/16, so
    # s^2 = 2 * (9/16 * 1/256 + 1/16 * 9/256) = 2 * 18/4096. t with one degree of freedom: 12.706.
    half = 12.7062 * np.sqrt(36 / 4096)
    expected = [max(0, 7 / 16 - half), min(1, 7 / 16 + half)]
    assert mean_intervals(column([0.5, 0.25]), [3, 1])[0] == pytest.approx(expected, abs=1e-5)
    values = column([0.4, 0.5, 0.45, 0.48])
    mean = 0.1 * (0.4 + 2 * 0.5 + 3 * 0.45 + 4 * 0.48)
    s2 = 4 / 3 * 0.01 * sum(w * w * (x - mean) ** 2 for w, x in enumerate(values[:, 0], 1))
    half = stats.t.ppf(0.975, 3) * np.sqrt(s2)
    assert mean_intervals(values, [1, 2, 3, 4])[0] == pytest.approx([mean - half, mean + half])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.floats(0.1, 10))
def test_equal_weights_change_nothing_and_queries_left_out_do_not_count(values, weight):
    plain = mean_intervals(column(values))
    assert mean_intervals(column(values), [weight] * len(values)) == pytest.approx(plain)
    more, weights = column([*values, np.nan, 0.3]), [weight] * (len(values) + 1) + [0]
    assert mean_intervals(more, weights) == pytest.approx(plain)
    assert ((plain >= 0) & (plain <= 1)).all()


def test_thirteen_queries_that_are_all_right_do_not_make_a_certain_mean():
    # All of 13 right happens with probability 0.025 where 0.025^(1/13) = 0.753 are.
    assert mean_intervals(column([1.0] * 13))[0] == pytest.approx([0.753, 1], abs=5e-4)
    assert mean_intervals(column([0.0] * 13))[0] == pytest.approx([0, 0.247], abs=5e-4)
    assert mean_intervals(column([0.7]))[0].tolist() == [0, 1]
    assert mean_intervals(np.zeros((0, 1)))[0].tolist() == [0, 1]


@pytest.mark.parametrize("weighted", [False, True])
def test_about_95_of_100_intervals_hold_the_mean(weighted):
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        values = random.beta(2, 1, (60, 1))  # mean 2/3
        weights = random.integers(1, 4, 60) if weighted else None
        low, high = mean_intervals(values, weights)[0]
        held += low <= 2 / 3 <= high
    assert 0.92 < held / 400 < 0.98


def test_one_query_with_all_the_traffic_is_one_query():
    assert queries_in_effect([5, 5, 5, 0]) == pytest.approx(3)
    assert queries_in_effect([1000, 1, 1]) == pytest.approx(1, abs=0.01)
    assert queries_in_effect([0, 0]) == 0


def test_a_figure_on_fewer_than_two_hundred_queries_is_said_to_be():
    assert caution("It rests on", 200) == []
    (sentence,) = caution("It rests on", 199)
    assert sentence.startswith("It rests on 199 queries, fewer than 200: ")
    assert caution("It rests on", 1)[0].startswith("It rests on 1 query, ")
