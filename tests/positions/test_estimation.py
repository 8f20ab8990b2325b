"""Known curves are found again, and what a log cannot answer is refused."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.positions.estimation import estimate
from dssm_tf.positions.shown import Shown
from dssm_tf.positions.simulation import Users
from tests.positions.judged import shown


@pytest.mark.parametrize("eta", [0, 0.5, 1, 2])
def test_harvesting_finds_the_curve_and_its_intervals_hold_it(eta):
    users = Users(eta=eta)
    curve = estimate(shown(users), "auto")
    assert curve.method == "harvesting"
    truth = users.examination(6)
    assert curve.propensities == approx(truth, abs=0.03)
    low, high = np.array(curve.intervals).T
    # Twice the width: intervals of 95 % hold 5 values of 6 now and then.
    wide = np.log(high / low) / 2
    assert (np.abs(np.log(curve.propensities / truth)) <= 2 * wide + 1e-9).all()
    assert (high - low)[1:].max() < 0.1


@pytest.mark.parametrize("eta", [0, 1])
def test_em_finds_the_curve(eta):
    users = Users(eta=eta)
    curve = estimate(shown(users, sessions=30_000), "em")
    assert curve.propensities == approx(users.examination(6), abs=0.08)


def test_intervals_are_as_wide_as_estimates_spread():
    found = [estimate(shown(Users(eta=1), 20_000, seed), "harvesting") for seed in range(12)]
    spread = np.log([one.propensities for one in found]).std(axis=0, ddof=1)[1:]
    low, high = np.array(found[0].intervals).T[:, 1:]
    said = np.log(high / low) / 2 / 1.96
    assert 0.4 < np.median(said / spread) < 2.5


def test_without_interventions_auto_fits_by_em_and_harvesting_is_refused():
    still = shown(Users(eta=1), 20_000, rankers=1)
    curve = estimate(still, "auto")
    assert curve.method == "em"
    assert curve.basis["pairs at several positions"] == 0
    with pytest.raises(UserError, match="harvesting: position 1 has 0 clicks on titles that stood"):
        estimate(still, "harvesting")


@pytest.mark.parametrize(("moved", "method"), [(1, "em"), (2, "em"), (30, "harvesting")])
def test_interventions_of_few_queries_do_not_make_a_curve(moved, method):
    """Enough clicks, but a bootstrap draw may leave all of these queries out."""
    cells = [(q, 0, 0, at, 200, 90 // at) for q in range(moved) for at in (1, 2)]
    cells += [(q, at, 0, at, 200, 90 // at) for q in range(30) for at in (1, 2)]
    log = Shown.of(cells)
    curve = estimate(log)
    assert curve.method == method
    assert np.isfinite(curve.intervals).all()
    if method == "em":
        with pytest.raises(UserError, match="harvesting: too few queries have titles that stood"):
            estimate(log, "harvesting")


def test_the_curve_ends_where_clicks_end():
    cells = [(q, t, 0, at, 40, 20 if at < 4 else 0)
             for q in range(9) for t in range(5) for at in range(1, 6)]  # fmt: skip
    curve = estimate(Shown.of(cells))
    assert curve.propensities == approx([1, 1, 1], abs=1e-3)
    assert curve.basis == {
        "queries": 9, "pairs": 45, "pairs at several positions": 45, "impressions": 5400,
        "clicks": 2700, "clicks on pairs at several positions": 2700,
    }  # fmt: skip


def test_nobody_is_believed_to_look_at_a_later_position_more_often():
    cells = [(q, 0, 0, at, 100, 10 * at) for q in range(9) for at in (1, 2)]
    assert estimate(Shown.of(cells)).propensities == (1, 1)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([], "no row has both"),
        ([(0, 0, 0, 1, 0, 9)], "no row has both"),  # no impressions
        ([(0, 0, 0, 1, 100, 50), (0, 0, 0, 2, 100, 19)], "there are 50 and 19"),
    ],
)
def test_a_log_that_cannot_answer_is_refused(cells, said):
    with pytest.raises(UserError, match=f"--position-weights .*{said}"):
        estimate(Shown.of(cells))


def test_more_clicks_than_impressions_count_as_many_as_impressions():
    assert Shown.of([(0, 0, 0, 1, 3, 5)]).clicks.tolist() == [3]
