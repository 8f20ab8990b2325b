"""The RBM against its definition, by enumeration of all states."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.dse.rbm import RBM
from tests.numerical_gradients import numerical_gradient
from tests.reference.rbm import Machine, states

KINDS = ("binary", "gaussian")


def machine(kind="binary", visible=4, hidden=3, seed=0, scale=0.6) -> Machine:
    random = np.random.default_rng(seed)
    return Machine(
        random.normal(0, scale, (visible, hidden)),
        random.normal(0, 0.5, visible),
        random.normal(0, 0.5, hidden),
        kind == "gaussian",
    )


def layer_of(reference: Machine, **options) -> RBM:
    """The layer in double precision, with the weights of a reference machine."""
    kind = "gaussian" if reference.gaussian else "binary"
    layer = RBM(len(reference.c), kind, dtype="float64", **options)
    layer.build((None, len(reference.b)))
    layer.kernel.assign(reference.W)
    layer.hidden_bias.assign(reference.c)
    layer.visible_bias.assign(reference.b)
    return layer


def test_a_visible_and_a_hidden_unit_by_hand():
    layer = layer_of(Machine(np.array([[2.0]]), np.array([0.5]), np.array([-1.0])))
    unit = np.array([[1.0]])
    # c + vW = -1 + 2
    assert float(layer(unit)[0, 0]) == pytest.approx(1 / (1 + np.exp(-1)))
    # b + Wh = 0.5 + 2
    assert float(layer.visible_mean(unit)[0, 0]) == pytest.approx(1 / (1 + np.exp(-2.5)))
    # h = 0: exp(b); h = 1: exp(b + c + W)
    assert float(layer.free_energy(unit)[0]) == pytest.approx(-np.log(np.exp(0.5) + np.exp(1.5)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_free_energy_sums_or_integrates_over_all_hidden_states(kind):
    reference = machine(kind)
    all_states = states(4)
    expected = [reference.free_energy(v) for v in all_states]
    np.testing.assert_allclose(layer_of(reference).free_energy(all_states), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_difference_of_statistics_is_the_gradient_of_the_likelihood(kind):
    """With samples of the exact model distribution, eq. 13 equals eq. 11, the exact gradient."""
    reference = machine(kind)
    data = states(4)[[1, 3, 3, 11, 14]]
    layer = layer_of(reference)
    counts = np.round(reference.probabilities() * 200_000).astype(int)
    samples = np.repeat(states(4), counts, axis=0)
    updates = layer.statistics_difference(tf.constant(data), tf.constant(samples))
    for received, exact in zip(updates, reference.likelihood_gradient(data), strict=True):
        np.testing.assert_allclose(received, exact, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_the_reference_equals_finite_differences(kind):
    reference = machine(kind, visible=3, hidden=2)
    data = states(3)[[1, 3, 6]]
    expected = numerical_gradient(lambda: reference.log_likelihood(data), reference.W)
    assert reference.likelihood_gradient(data)[0] == pytest.approx(expected, abs=1e-6)


def test_initial_weights_are_near_zero():
    layer = RBM(50)
    layer.build((None, 200))
    assert np.std(layer.kernel.numpy()) == pytest.approx(0.01, rel=0.05)


def test_contrastive_divergence_has_the_expectation_of_its_definition():
    reference = machine(visible=3, hidden=2)
    data = states(3)[[1, 6]]
    layer = layer_of(reference, sample_visible_units=True)
    repeated = np.repeat(data, 40_000, axis=0)
    updates = layer.contrastive_divergence(tf.constant(repeated))
    for received, exact in zip(updates, reference.cd1_expectation(data), strict=True):
        # A mean of 80,000 products of values up to 1: standard error below 0.002.
        np.testing.assert_allclose(received, exact, atol=0.01)


def test_more_sampling_steps_approach_the_exact_gradient():
    reference = machine(visible=3, hidden=2, scale=3)
    data = states(3)[[1, 6]]
    exact = reference.likelihood_gradient(data)[0]
    repeated = tf.constant(np.repeat(data, 20_000, axis=0))
    error = []
    for gibbs_steps in (1, 20):
        layer = layer_of(reference, sample_visible_units=True, gibbs_steps=gibbs_steps)
        error.append(np.abs(layer.contrastive_divergence(repeated)[0] - exact).max())
    assert error[1] < 0.02 < 0.04 < error[0]


def test_the_pseudo_likelihood_equals_its_definition():
    reference = machine()
    row = states(4)[[11]]
    layer = layer_of(reference)
    repeated = tf.constant(np.repeat(row, 50_000, axis=0))
    expected = reference.pseudo_log_likelihood(row[0])
    assert float(layer.pseudo_log_likelihood(repeated)) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_samples_have_the_mean_and_the_variance_of_their_kind(kind):
    reference = machine(kind)
    layer = layer_of(reference)
    mean = layer.hidden_mean(np.repeat(states(4)[[5]], 50_000, axis=0))
    samples = np.array(layer.sample_hidden(mean))
    expected = reference.hidden_mean(states(4)[5])
    np.testing.assert_allclose(samples.mean(axis=0), expected, atol=0.02)
    variance = np.ones(3) if kind == "gaussian" else expected * (1 - expected)
    np.testing.assert_allclose(samples.var(axis=0), variance, atol=0.03)
