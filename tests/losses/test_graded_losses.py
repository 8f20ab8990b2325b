"""Losses of graded lists: the papers' formulas, values by hand, and losses by source."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.losses import KL, BySource, ClickSoftmax, ListwiseSoftmax, MarginMSE
from tests.components import GRADED_LOSS_CONFIGS, build_loss, copy_of
from tests.labels import labels
from tests.losses.values import gradient, losses_per_query
from tests.reference import graded_losses as reference

GENERATOR = np.random.default_rng(11)
SCORES = GENERATOR.uniform(-1, 1, (5, 6))
GRADES = GENERATOR.choice([0, 0, 1, 1.67, 2, 4], SCORES.shape)
LENGTHS = np.array([6, 2, 4, 1, 5])
MASK = np.arange(6) < LENGTHS[:, None]
ORACLES = {
    "listwise_softmax": (reference.listwise_softmax, {"gamma": 7.0}),
    "kl": (reference.kl, {"gamma": 7.0, "temperature": 1.3}),
    "margin_mse": (reference.margin_mse, {"gamma": 2.5}),
}

CLICKS, LISTS = ClickSoftmax(), ListwiseSoftmax()


def labels_of(targets, mask=None) -> dict[str, np.ndarray]:
    """Labels of titles with these grades or scores."""
    mask = np.ones(np.shape(targets), bool) if mask is None else mask
    return labels(mask) | {"targets": np.asarray(targets, np.float64)}


@pytest.mark.parametrize("name", GRADED_LOSS_CONFIGS)
def test_a_graded_loss_equals_the_formula_of_its_paper(name):
    oracle, arguments = ORACLES[name]
    losses = losses_per_query(build_loss(name, **arguments), SCORES, labels_of(GRADES, MASK))
    expected = [
        oracle(row[:length], grades[:length], **arguments)
        for row, grades, length in zip(SCORES, GRADES, LENGTHS, strict=True)
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("grades", [[2, 1], [0.05, 0]])  # gains of 3 and 1; of 0.035 and 0
def test_two_equal_cosines_cost_log_2_with_any_gains(grades):
    # Targets are fractions of the gain, such as 3/4 and 1/4. Both probabilities are 1/2, so the
    # loss is -(3/4 + 1/4) log(1/2).
    assert losses_per_query(LISTS, [[0.3, 0.3]], labels_of([grades])) == pytest.approx([np.log(2)])


def test_a_query_without_a_grade_above_0_has_no_listwise_loss():
    grades = labels_of([[0, 0], [0, 1]])
    losses = losses_per_query(LISTS, [[0.1, 0.9], [0.1, 0.9]], grades)
    assert losses[0] == 0
    assert losses[1] == pytest.approx(np.log1p(np.exp(-10 * 0.8)))
    assert not gradient(LISTS, [[0.1, 0.9], [0.1, 0.9]], grades)[0].any()


@pytest.mark.parametrize("loss", [KL(), MarginMSE()])
def test_scores_equal_to_the_teacher_s_have_no_loss_and_no_gradient(loss):
    shifted = SCORES + 3.0  # a constant does not change the ranking
    assert losses_per_query(loss, SCORES, labels_of(shifted)) == pytest.approx(
        np.zeros(5), abs=1e-9
    )
    assert gradient(loss, SCORES, labels_of(shifted)) == pytest.approx(np.zeros((5, 6)), abs=1e-9)


def test_margins_of_a_pair_cost_the_square_of_their_difference():
    # Cosines .5 and .1, teacher 9 and 3: (10 * .4 - 6)^2.
    loss = MarginMSE(gamma=10.0)
    assert losses_per_query(loss, [[0.5, 0.1]], labels_of([[9, 3]])) == pytest.approx([4.0])


def test_each_query_has_the_loss_of_its_source():
    losses = [CLICKS, LISTS, MarginMSE(gamma=2.0)]
    targets = np.array([[1, 0, 0], [2, 0, 1], [0.3, 0.9, -4], [0, 1, 0]], np.float64)
    sources = np.array([0, 1, 2, 0], np.int32)
    values = losses_per_query(
        BySource(losses), SCORES[:4, :3], labels_of(targets) | {"source": sources}
    )
    for row, source in enumerate(sources):
        expected = losses_per_query(losses[source], SCORES[[row], :3], labels_of(targets[[row]]))
        assert expected == pytest.approx(values[row], rel=1e-9)


def test_a_teacher_s_large_scores_do_not_spoil_the_gradients_of_other_sources():
    # As grades, their gains would be infinite (2^9000), and 0 times infinity is NaN.
    targets = labels_of([[9000.0, 1000.0], [1, 0]]) | {"source": np.array([2, 0], np.int32)}
    loss = BySource([CLICKS, LISTS, KL(temperature=100.0)])
    scores = [[0.1, 0.2], [0.3, 0.1]]
    assert np.isfinite(losses_per_query(loss, scores, targets)).all()
    assert np.isfinite(gradient(loss, scores, targets)).all()


@pytest.mark.parametrize("losses", [[], ["kl"], [keras.losses.MeanSquaredError()]])
def test_by_source_refuses_anything_but_ranking_losses(losses):
    with pytest.raises(ValueError, match=r"BySource received losses=.*expected one RankingLoss"):
        BySource(losses)


def test_serialization_keeps_by_source_and_its_losses():
    loss = BySource([ClickSoftmax(gamma=3.0), KL()], reduction="sum")
    copy = copy_of(loss)
    assert copy.get_config() == loss.get_config()
    assert [type(inner) for inner in copy.losses] == [ClickSoftmax, KL]
    assert (copy.losses[0].gamma, copy.reduction) == (3.0, "sum")
