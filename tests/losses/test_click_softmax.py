"""The softmax of the papers: hand-derived values, its closed gradient, masks and corrections."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.losses.click_softmax import ClickSoftmax
from tests.labels import all_count, labels
from tests.reference import click_softmax as reference

pytestmark = pytest.mark.numeric

cosines = arrays(np.float32, st.tuples(st.just(1), st.integers(2, 6)),
                 elements=st.floats(-1, 1, width=32))  # fmt: skip
gammas = st.sampled_from([0.5, 1.0, 10.0, 50.0])


def loss(values, known=None, gamma=10.0) -> float:
    values = np.asarray(values, np.float32)
    return float(ClickSoftmax(gamma)(known or all_count(values), values))


def gradient(values, known=None, gamma=10.0) -> np.ndarray:
    variable = tf.Variable(np.asarray(values, np.float32))
    with tf.GradientTape() as tape:
        value = ClickSoftmax(gamma)(known or all_count(values), variable)
    return np.array(tape.gradient(value, variable))


def test_loss_equals_the_hand_computed_posterior():
    # softmax(10 * [0.5, 0.1])[0] = 1 / (1 + exp(-4))
    assert loss([[0.5, 0.1]]) == pytest.approx(np.log1p(np.exp(-4)), abs=1e-6)


def test_equal_cosines_cost_the_log_of_the_number_of_titles():
    assert loss([[0.3] * 5]) == pytest.approx(np.log(5))


def test_gamma_one_is_the_softmax_of_the_plain_cosines():
    # P14 eq. 9: exp(.5) / (exp(.5) + exp(.1) + exp(-.2))
    posterior = np.exp(0.5) / (np.exp(0.5) + np.exp(0.1) + np.exp(-0.2))
    assert loss([[0.5, 0.1, -0.2]], gamma=1.0) == pytest.approx(-np.log(posterior))


@given(values=cosines, gamma=gammas)
def test_loss_is_the_paper_s(values, gamma):
    assert loss(values, gamma=gamma) == pytest.approx(
        reference.loss(values[0].astype(float), gamma), abs=1e-4
    )


@given(values=cosines, gamma=gammas)
def test_the_gradient_is_the_paper_s(values, gamma):
    found = gradient(values, gamma=gamma)
    expected = reference.loss_gradient(values[0].astype(float), gamma)
    np.testing.assert_allclose(found[0], expected, atol=2e-4 * gamma)


def test_the_paper_s_closed_form_is_the_slope_of_its_loss():
    values = np.array([0.4, 0.1, -0.3, 0.35])
    slopes = []
    for place in range(4):
        step = np.eye(4)[place] * 1e-6
        sides = (reference.loss(values + step, 7.0), reference.loss(values - step, 7.0))
        slopes.append((sides[0] - sides[1]) / 2e-6)
    np.testing.assert_allclose(reference.loss_gradient(values, 7.0), slopes, atol=1e-8)


def test_a_masked_title_with_a_perfect_cosine_beside_a_poor_click_counts_nothing():
    # The worst case: the masked title would take all of the probability.
    values, known = [[-1.0, 1.0, -1.0]], labels([[1, 0, 1]])
    assert loss(values, known, gamma=1000.0) == pytest.approx(np.log(2), abs=1e-4)
    assert gradient(values, known, gamma=1000.0)[0, 1] == 0


def test_the_sampling_correction_is_added_to_the_logits_not_to_the_cosines():
    # Drawn 1 and 4 times as often: logits 10 * .5 - log 1 and 10 * .1 - log 4.
    logits = np.array([5.0, 1.0 - np.log(4)])
    expected = -np.log(np.exp(logits[0]) / np.exp(logits).sum())
    found = loss([[0.5, 0.1]], labels([[1, 1]], [[0, -np.log(4)]]))
    assert found == pytest.approx(expected, abs=1e-6)


@given(values=cosines, shift=st.floats(-5, 5))
def test_the_same_correction_for_all_titles_changes_nothing(values, shift):
    shifted = labels(np.ones_like(values), shift)
    assert loss(values, shifted) == pytest.approx(loss(values), abs=1e-4)


@pytest.mark.parametrize("gamma", [0, -1.0, float("nan")])
def test_a_gamma_that_is_not_positive_is_refused(gamma):
    with pytest.raises(ValueError, match="expected gamma > 0"):
        ClickSoftmax(gamma)
