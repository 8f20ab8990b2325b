"""The AllPairs estimator of examination, on titles displayed at several positions."""

from __future__ import annotations

import numpy as np
from pytest import approx

from dssm_tf.positions.harvesting import all_pairs, connected_positions, interventions
from dssm_tf.positions.impressions import ImpressionCounts


def sums(log, positions):
    return interventions(log, positions).sums(np.ones(log.query.max() + 1))


def test_one_title_at_two_positions_gives_the_ratio_of_its_click_rates():
    log = ImpressionCounts.from_cells([(0, 0, 1, 100, 50), (0, 0, 2, 300, 60), (0, 1, 2, 900, 1)])
    # (60 / 300) / (50 / 100); the title displayed at one position does not count.
    assert all_pairs(*sums(log, 2)) == approx([1, 0.4], abs=1e-4)


def test_a_pair_has_one_weight_for_both_positions_from_its_impressions():
    weight, clicks = sums(ImpressionCounts.from_cells([(0, 0, 1, 100, 50), (0, 0, 2, 300, 60)]), 2)
    # The weight is 100 * 300 / 400 = 75, the click rates are 0.5 and 0.2.
    assert weight == approx(np.array([[0, 75], [75, 0]]))
    assert clicks == approx(np.array([[0, 37.5], [15, 0]]))


def test_a_curve_is_recovered_from_its_expected_clicks_at_adjacent_positions():
    truth = np.array([1, 0.6, 0.45, 0.3])
    relevance = np.array([0.8, 0.5, 0.3])  # of titles at positions 1 and 2, 2 and 3, 3 and 4
    weight = np.zeros((4, 4))
    for rank in range(3):
        weight[rank, rank + 1] = weight[rank + 1, rank] = 10.0 * (rank + 1)
    relevance_of_pair = np.zeros((4, 4))
    for rank, mean in enumerate(relevance):
        relevance_of_pair[rank, rank + 1] = relevance_of_pair[rank + 1, rank] = mean
    clicks = weight * relevance_of_pair * truth[:, None]
    assert connected_positions(clicks) == 4
    assert all_pairs(weight, clicks) == approx(truth, abs=1e-3)


def test_samples_estimated_together_equal_those_estimated_one_at_a_time():
    random = np.random.default_rng(3)
    weight = np.full((5, 3, 3), 40.0) * (1 - np.eye(3))
    clicks = weight * random.uniform(0.1, 0.5, (5, 3, 3))
    together = all_pairs(weight, clicks)
    one_at_a_time = [all_pairs(*sample) for sample in zip(weight, clicks, strict=True)]
    assert together == approx(np.stack(one_at_a_time), abs=1e-3)


def test_positions_are_connected_by_titles_clicked_relevance_of_pair():
    clicks = np.zeros((4, 4))
    clicks[0, 1] = clicks[1, 0] = clicks[2, 3] = clicks[3, 2] = 5
    assert connected_positions(clicks) == 2
    clicks[1, 3] = 5
    assert connected_positions(clicks) == 2  # positions 2 and 4: clicked only at 2
    clicks[3, 1] = 5
    assert connected_positions(clicks) == 4  # position 3 is connected through position 4
