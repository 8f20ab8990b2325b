"""Estimates of known curves, and logs without an estimate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.positions.estimation import _bootstrap_counts, estimate
from dssm_tf.positions.impressions import ImpressionCounts
from examples.simulate_clicks import Users
from tests.positions.judged import simulated_log


@pytest.mark.parametrize("eta", [0, 0.5, 1, 2])
def test_harvesting_recovers_the_curve_within_its_intervals(eta):
    users = Users(eta=eta)
    curve = estimate(simulated_log(users))
    truth = users.examination(6)
    assert curve.propensities == approx(truth, abs=0.03)
    low, high = np.array(curve.intervals).T
    # Twice the half width, because a 95 % interval misses one of six values now and then.
    half_width = np.log(high / low) / 2
    assert (np.abs(np.log(curve.propensities / truth)) <= 2 * half_width + 1e-9).all()
    assert (high - low)[1:].max() < 0.1


def test_intervals_match_the_spread_of_estimates_over_seeds():
    curves = [estimate(simulated_log(Users(eta=1), 20_000, seed)) for seed in range(12)]
    spread = np.log([curve.propensities for curve in curves]).std(axis=0, ddof=1)[1:]
    low, high = np.array(curves[0].intervals).T[:, 1:]
    standard_error = np.log(high / low) / 2 / 1.96
    assert 0.4 < np.median(standard_error / spread) < 2.5


def test_a_log_without_titles_at_several_positions_has_no_estimate():
    curve = estimate(simulated_log(Users(eta=1), 20_000, rankers=1))
    assert curve.problem == (
        "no title was displayed at several positions for one query; examination cannot be "
        "estimated from this log"
    )
    assert curve.basis["pairs at several positions"] == 0
    assert curve.weights(max_weight=10) == (1000,)  # later positions have the last weight


@pytest.mark.parametrize(("queries", "positions"), [(1, 1), (2, 1), (30, 2)])
def test_interventions_of_few_queries_are_not_enough_for_a_curve(queries, positions):
    # There are enough clicks, but a bootstrap sample may leave out all of these queries.
    cells = [(q, 0, rank, 200, 90 // rank) for q in range(queries) for rank in (1, 2)]
    cells += [(q, rank, rank, 200, 90 // rank) for q in range(30) for rank in (1, 2)]
    curve = estimate(ImpressionCounts.from_cells(cells))
    assert len(curve.propensities) == positions
    assert ("titles displayed at several positions" in curve.problem) == (positions == 1)


def test_the_curve_ends_where_clicks_end():
    cells = [(q, t, rank, 40, 20 if rank < 4 else 0)
             for q in range(9) for t in range(5) for rank in range(1, 6)]  # fmt: skip
    curve = estimate(ImpressionCounts.from_cells(cells))
    assert curve.propensities == approx([1, 1, 1], abs=1e-3)
    assert curve.basis == {
        "queries": 9, "pairs": 45, "pairs at several positions": 45, "impressions": 5400,
        "clicks": 2700, "clicks on pairs at several positions": 2700,
    }  # fmt: skip


def test_the_curve_ends_where_no_title_connects_to_the_first_position():
    # Titles shown only at 3 and 4 give no ratio to position 1.
    cells = [(q, t, rank, 100, 60 // rank)
             for q in range(30) for t, ranks in enumerate([(1, 2), (3, 4)])
             for rank in ranks]  # fmt: skip
    assert estimate(ImpressionCounts.from_cells(cells)).propensities == approx([1, 0.5], abs=1e-3)
    connected = [*cells, *((q, 2, rank, 100, 60 // rank) for q in range(30) for rank in (1, 3))]
    assert estimate(ImpressionCounts.from_cells(connected)).propensities == approx(
        [1, 1 / 2, 1 / 3, 1 / 4], abs=1e-3
    )


def test_propensities_are_limited_to_one():
    cells = [(q, 0, rank, 100, 10 * rank) for q in range(9) for rank in (1, 2)]
    assert estimate(ImpressionCounts.from_cells(cells)).propensities == (1, 1)


@pytest.mark.parametrize("cells", [[], [(0, 0, 1, 0, 9)]])  # no cell; no impressions
def test_a_log_without_positions_and_impressions_is_rejected(cells):
    with pytest.raises(UserError, match=r"--position-weights .*no row has both"):
        estimate(ImpressionCounts.from_cells(cells))


def test_few_clicks_at_the_second_position_give_no_estimate():
    log = ImpressionCounts.from_cells([(0, 0, 1, 100, 50), (0, 0, 2, 100, 19)])
    assert "position 2 has fewer than 20 clicks" in estimate(log).problem


def test_clicks_are_limited_to_impressions():
    assert ImpressionCounts.from_cells([(0, 0, 1, 3, 5)]).clicks.tolist() == [3]


def test_memory_does_not_grow_with_the_number_of_bootstrap_samples():
    queries = 4_000
    cells = [(q, 0, rank, 40, 20 // rank) for q in range(queries) for rank in (1, 2)]
    log = ImpressionCounts.from_cells(cells)
    estimate(log)  # imports and caches
    tracemalloc.start()
    curve = estimate(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert curve.propensities == approx([1, 1 / 2], abs=1e-3)
    # 200 samples at once would have 200 * 4,000 * 8 bytes = 6.4 MB, each twice.
    assert peak < 2e6


def test_samples_drawn_one_at_a_time_equal_samples_drawn_at_once():
    counts = np.stack([*_bootstrap_counts(50, seed=3)])
    at_once = np.random.default_rng(3).multinomial(50, np.full(50, 1 / 50), len(counts))
    assert (counts == at_once).all()
