"""The losses: hand-derived values, exact masks, offsets, gradients, precision."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.data.offsets import MASKED
from dssm_tf.losses import ClickSoftmax
from tests.reference import click_softmax as reference

cosines = arrays(np.float32, st.tuples(st.just(1), st.integers(2, 6)),
                 elements=st.floats(-1, 1, width=32))  # fmt: skip
gammas = st.sampled_from([0.5, 1.0, 10.0, 50.0])


def loss(values, offsets=None, gamma=10.0) -> float:
    values = np.asarray(values, np.float32)
    offsets = np.zeros_like(values) if offsets is None else np.asarray(offsets, np.float32)
    return float(ClickSoftmax(gamma)(offsets, values))


def gradient(values, offsets, gamma=10.0) -> np.ndarray:
    variable = tf.Variable(np.asarray(values, np.float32))
    with tf.GradientTape() as tape:
        value = ClickSoftmax(gamma)(np.asarray(offsets, np.float32), variable)
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
    found = gradient(values, np.zeros_like(values), gamma)
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


@given(values=cosines, gamma=gammas, seed=st.integers(0, 99))
def test_a_masked_title_counts_exactly_nothing(values, gamma, seed):
    """Its probability and its gradient are 0, not small: the softmax without that column."""
    generator = np.random.default_rng(seed)
    columns = values.shape[1] + 3
    kept = np.sort(generator.permutation(np.arange(1, columns))[: values.shape[1] - 1])
    kept = np.concatenate([[0], kept])
    wide = generator.uniform(-1, 1, (1, columns)).astype(np.float32)
    wide[:, kept] = values
    offsets = np.full((1, columns), MASKED, np.float32)
    offsets[:, kept] = 0
    assert loss(wide, offsets, gamma) == pytest.approx(
        loss(values, gamma=gamma), rel=1e-6, abs=1e-7
    )
    found = gradient(wide, offsets, gamma)
    masked = np.setdiff1d(np.arange(columns), kept)
    assert not found[:, masked].any()
    plain = gradient(values, np.zeros_like(values), gamma)
    np.testing.assert_allclose(found[:, kept], plain, rtol=1e-5, atol=1e-6)


def test_a_masked_title_with_a_perfect_cosine_beside_a_poor_click_counts_nothing():
    # The worst case: the masked title would take all of the probability.
    values, offsets = [[-1.0, 1.0, -1.0]], [[0, MASKED, 0]]
    assert loss(values, offsets, gamma=1000.0) == pytest.approx(np.log(2), abs=1e-4)
    assert gradient(values, offsets, gamma=1000.0)[0, 1] == 0


def test_all_rivals_masked_leave_no_loss_and_no_gradient():
    assert loss([[0.2, 0.9]], [[0, MASKED]]) == 0
    assert not gradient([[0.2, 0.9]], [[0, MASKED]]).any()


def test_an_offset_of_log_n_counts_a_title_n_times():
    assert loss([[0.5, 0.1]], [[0, np.log(3)]]) == pytest.approx(loss([[0.5, 0.1, 0.1, 0.1]]))


def test_the_sampling_correction_is_added_to_the_logits_not_to_the_cosines():
    # Drawn 1 and 4 times as often: logits 10 * .5 - log 1 and 10 * .1 - log 4.
    logits = np.array([5.0, 1.0 - np.log(4)])
    expected = -np.log(np.exp(logits[0]) / np.exp(logits).sum())
    assert loss([[0.5, 0.1]], [[0, -np.log(4)]]) == pytest.approx(expected, abs=1e-6)


@given(values=cosines, shift=st.floats(-5, 5))
def test_the_same_offset_for_all_titles_changes_nothing(values, shift):
    assert loss(values, np.full_like(values, shift)) == pytest.approx(loss(values), abs=1e-4)


def test_weights_weigh_the_queries():
    values = np.array([[0.5, 0.1], [0.1, 0.5]], np.float32)
    zeros = np.zeros_like(values)
    each = [loss(values[:1]), loss(values[1:])]
    found = float(ClickSoftmax(10.0)(zeros, values, sample_weight=np.array([3.0, 0.0])))
    assert found == pytest.approx((3 * each[0] + 0 * each[1]) / 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cosines_of_reduced_precision_give_no_nan(dtype):
    values = tf.cast([[1.0, -1.0, 0.5], [-1.0, 1.0, 1.0]], dtype)
    offsets = np.array([[0, MASKED, 0], [0, 0, MASKED]], np.float32)
    with tf.GradientTape() as tape:
        tape.watch(values)
        found = ClickSoftmax(50.0)(offsets, values)
    assert found.dtype == tf.float32
    assert float(found) == pytest.approx((0 + 100) / 2, abs=0.1)
    assert np.isfinite(tf.cast(tape.gradient(found, values), tf.float32).numpy()).all()


@pytest.mark.parametrize("gamma", [0, -1.0, float("nan")])
def test_a_gamma_that_is_not_positive_is_refused(gamma):
    with pytest.raises(ValueError, match="expected gamma > 0"):
        ClickSoftmax(gamma)


def test_its_configuration_makes_an_equal_loss():
    made = ClickSoftmax(7.5, name="surprise", reduction="sum")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert again.get_config() == made.get_config()
    assert (again.gamma, again.reduction) == (7.5, "sum")
