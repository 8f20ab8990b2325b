"""Known curves are found again, and what a log cannot tell is said."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.positions.estimation import estimate
from dssm_tf.positions.shown import Shown
from examples.simulate_clicks import Users
from tests.positions.judged import shown


@pytest.mark.parametrize("eta", [0, 0.5, 1, 2])
def test_harvesting_finds_the_curve_and_its_intervals_hold_it(eta):
    users = Users(eta=eta)
    curve = estimate(shown(users))
    truth = users.examination(6)
    assert curve.propensities == approx(truth, abs=0.03)
    low, high = np.array(curve.intervals).T
    # Twice the width: intervals of 95 % hold 5 values of 6 now and then.
    wide = np.log(high / low) / 2
    assert (np.abs(np.log(curve.propensities / truth)) <= 2 * wide + 1e-9).all()
    assert (high - low)[1:].max() < 0.1


def test_intervals_are_as_wide_as_estimates_spread():
    found = [estimate(shown(Users(eta=1), 20_000, seed)) for seed in range(12)]
    spread = np.log([one.propensities for one in found]).std(axis=0, ddof=1)[1:]
    low, high = np.array(found[0].intervals).T[:, 1:]
    said = np.log(high / low) / 2 / 1.96
    assert 0.4 < np.median(said / spread) < 2.5


def test_a_log_in_which_no_title_moved_has_no_curve_whatever_its_clicks():
    curve = estimate(shown(Users(eta=1), 20_000, rankers=1))
    assert curve.problem == (
        "no title was shown at several positions for one query; the log cannot tell how often a "
        "position is looked at"
    )
    assert curve.basis["pairs at several positions"] == 0
    assert curve.weights(most=10) == (1000,)  # behind the last position its weight counts


@pytest.mark.parametrize(("moved", "positions"), [(1, 1), (2, 1), (30, 2)])
def test_interventions_of_few_queries_do_not_make_a_curve(moved, positions):
    """Enough clicks, but a bootstrap draw may leave all of these queries out."""
    cells = [(q, 0, at, 200, 90 // at) for q in range(moved) for at in (1, 2)]
    cells += [(q, at, at, 200, 90 // at) for q in range(30) for at in (1, 2)]
    curve = estimate(Shown.of(cells))
    assert len(curve.propensities) == positions
    assert ("titles shown at several positions" in curve.problem) == (positions == 1)


def test_the_curve_ends_where_clicks_end():
    cells = [(q, t, at, 40, 20 if at < 4 else 0)
             for q in range(9) for t in range(5) for at in range(1, 6)]  # fmt: skip
    curve = estimate(Shown.of(cells))
    assert curve.propensities == approx([1, 1, 1], abs=1e-3)
    assert curve.basis == {
        "queries": 9, "pairs": 45, "pairs at several positions": 45, "impressions": 5400,
        "clicks": 2700, "clicks on pairs at several positions": 2700,
    }  # fmt: skip


def test_the_curve_ends_where_no_title_is_tied_to_the_first_position():
    """Titles that stood at 3 and 4 alone tell nothing about either relative to position 1."""
    cells = [(q, t, at, 100, 60 // at)
             for q in range(30) for t, places in enumerate([(1, 2), (3, 4)])
             for at in places]  # fmt: skip
    assert estimate(Shown.of(cells)).propensities == approx([1, 0.5], abs=1e-3)
    tied = [*cells, *((q, 2, at, 100, 60 // at) for q in range(30) for at in (1, 3))]
    assert estimate(Shown.of(tied)).propensities == approx([1, 1 / 2, 1 / 3, 1 / 4], abs=1e-3)


def test_nobody_is_believed_to_look_at_a_later_position_more_often():
    cells = [(q, 0, at, 100, 10 * at) for q in range(9) for at in (1, 2)]
    assert estimate(Shown.of(cells)).propensities == (1, 1)


@pytest.mark.parametrize("cells", [[], [(0, 0, 1, 0, 9)]])  # the latter without impressions
def test_a_log_without_positions_and_impressions_is_refused(cells):
    with pytest.raises(UserError, match=r"--position-weights .*no row has both"):
        estimate(Shown.of(cells))


def test_few_clicks_at_the_second_position_are_no_curve():
    log = Shown.of([(0, 0, 1, 100, 50), (0, 0, 2, 100, 19)])
    assert "position 2 has fewer than 20 clicks" in estimate(log).problem


def test_more_clicks_than_impressions_count_as_many_as_impressions():
    assert Shown.of([(0, 0, 1, 3, 5)]).clicks.tolist() == [3]
