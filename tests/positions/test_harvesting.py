"""AllPairs on interventions."""

from __future__ import annotations

import numpy as np
from pytest import approx

from dssm_tf.positions.harvesting import all_pairs, interventions, tied
from dssm_tf.positions.shown import Shown


def sums(shown, positions):
    found = interventions(shown, positions)
    return found.sums(np.ones(shown.query.max() + 1))


def test_one_title_at_two_positions_gives_the_ratio_of_its_click_rates():
    shown = Shown.of([(0, 0, 1, 100, 50), (0, 0, 2, 300, 60), (0, 1, 2, 900, 1)])
    # 60 / 300 over 50 / 100; the title that never moved says nothing.
    assert all_pairs(*sums(shown, 2)) == approx([1, 0.4], abs=1e-4)


def test_a_pair_weighs_by_its_impressions_and_the_same_at_both_positions():
    weight, clicks = sums(Shown.of([(0, 0, 1, 100, 50), (0, 0, 2, 300, 60)]), 2)
    # 100 * 300 / 400 = 75, of which 0.5 and 0.2.
    assert weight == approx(np.array([[0, 75], [75, 0]]))
    assert clicks == approx(np.array([[0, 37.5], [15, 0]]))


def test_clicks_that_follow_a_curve_give_it_back_over_other_positions_too():
    truth = np.array([1, 0.6, 0.45, 0.3])
    relevance = np.array([0.8, 0.5, 0.3])  # of titles at positions 1 and 2, 2 and 3, 3 and 4
    weight = np.zeros((4, 4))
    for at in range(3):
        weight[at, at + 1] = weight[at + 1, at] = 10.0 * (at + 1)
    at_both = np.zeros((4, 4))
    for at, one in enumerate(relevance):
        at_both[at, at + 1] = at_both[at + 1, at] = one
    clicks = weight * at_both * truth[:, None]
    assert tied(clicks) == 4
    assert all_pairs(weight, clicks) == approx(truth, abs=1e-3)


def test_bootstraps_are_estimated_as_if_each_were_alone():
    random = np.random.default_rng(3)
    weight = np.full((5, 3, 3), 40.0) * (1 - np.eye(3))
    clicks = weight * random.uniform(0.1, 0.5, (5, 3, 3))
    together = all_pairs(weight, clicks)
    alone = [all_pairs(one, two) for one, two in zip(weight, clicks, strict=True)]
    assert together == approx(np.stack(alone), abs=1e-3)


def test_positions_are_tied_to_the_first_by_titles_clicked_at_both():
    clicks = np.zeros((4, 4))
    clicks[0, 1] = clicks[1, 0] = clicks[2, 3] = clicks[3, 2] = 5
    assert tied(clicks) == 2
    clicks[1, 3] = 5
    assert tied(clicks) == 2  # clicked at one of the two alone
    clicks[3, 1] = 5
    assert tied(clicks) == 4  # the third over the fourth
