"""Losses of graded lists: the papers' formulas, hand-derived values, laws, mixtures."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.losses import KL, BySource, ClickSoftmax, ListwiseSoftmax, MarginMSE
from tests.components import GRADED_LOSS_CONFIGS, build_loss, copy_of
from tests.labels import labels
from tests.losses.values import each, gradient
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


def known(targets, mask=None) -> dict[str, np.ndarray]:
    """Labels of titles with these grades or scores."""
    mask = np.ones(np.shape(targets), bool) if mask is None else mask
    return labels(mask) | {"targets": np.asarray(targets, np.float64)}


@pytest.mark.parametrize("name", GRADED_LOSS_CONFIGS)
def test_a_graded_loss_is_the_paper_s(name):
    oracle, arguments = ORACLES[name]
    found = each(build_loss(name, **arguments), SCORES, known(GRADES, MASK))
    expected = [
        oracle(row[:length], grades[:length], **arguments)
        for row, grades, length in zip(SCORES, GRADES, LENGTHS, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("grades", [[2, 1], [0.05, 0]])  # a gain of 3, and one of 0.035
def test_two_equal_cosines_cost_the_log_of_2_whatever_the_gains(grades):
    # Shares of gain such as 3/4 and 1/4, probabilities 1/2 and 1/2: -(3/4 + 1/4) log(1/2).
    assert each(LISTS, [[0.3, 0.3]], known([grades])) == pytest.approx([np.log(2)])


def test_a_query_without_a_good_title_has_no_listwise_loss():
    told = known([[0, 0], [0, 1]])
    found = each(LISTS, [[0.1, 0.9], [0.1, 0.9]], told)
    assert found[0] == 0
    assert found[1] == pytest.approx(np.log1p(np.exp(-10 * 0.8)))
    assert not gradient(LISTS, [[0.1, 0.9], [0.1, 0.9]], told)[0].any()


@pytest.mark.parametrize("made", [KL(), MarginMSE()])
def test_a_student_that_scores_as_its_teacher_has_nothing_to_learn(made):
    shifted = SCORES + 3.0  # a constant for all titles ranks nothing
    assert each(made, SCORES, known(shifted)) == pytest.approx(np.zeros(5), abs=1e-9)
    assert gradient(made, SCORES, known(shifted)) == pytest.approx(np.zeros((5, 6)), abs=1e-9)


def test_margins_of_a_pair_cost_the_square_of_their_difference():
    # Cosines .5 and .1, teacher 9 and 3: (10 * .4 - 6)^2.
    made = MarginMSE(gamma=10.0)
    assert each(made, [[0.5, 0.1]], known([[9, 3]])) == pytest.approx([4.0])


def test_each_source_has_its_own_loss():
    parts = [CLICKS, LISTS, MarginMSE(gamma=2.0)]
    targets = np.array([[1, 0, 0], [2, 0, 1], [0.3, 0.9, -4], [0, 1, 0]], np.float64)
    told = known(targets) | {"source": np.array([0, 1, 2, 0], np.int32)}
    found = each(BySource(parts), SCORES[:4, :3], told)
    for row, source in enumerate(told["source"]):
        alone = each(parts[source], SCORES[[row], :3], known(targets[[row]]))
        assert alone == pytest.approx(found[row], rel=1e-9)


def test_a_teacher_s_large_scores_do_not_spoil_the_gradients_of_other_sources():
    # As grades they would be 2^9000: infinite, and 0 times that is no number.
    told = known([[9000.0, 1000.0], [1, 0]]) | {"source": np.array([2, 0], np.int32)}
    made = BySource([CLICKS, LISTS, KL(temperature=100.0)])
    scores = [[0.1, 0.2], [0.3, 0.1]]
    assert np.isfinite(each(made, scores, told)).all()
    assert np.isfinite(gradient(made, scores, told)).all()


def test_losses_of_losses_survive_their_configuration():
    loss = BySource([ClickSoftmax(gamma=3.0), KL()], reduction="sum")
    copy = copy_of(loss)
    assert copy.get_config() == loss.get_config()
    assert [type(part) for part in copy.losses] == [ClickSoftmax, KL]
    assert (copy.losses[0].gamma, copy.reduction) == (3.0, "sum")
