"""The sigmoid: a value by hand, the paper's formula, scores that mean something by themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.losses.sigmoid import Sigmoid
from tests.labels import all_count, labels

pytestmark = pytest.mark.numeric

cosines = arrays(np.float32, st.tuples(st.just(1), st.integers(2, 6)),
                 elements=st.floats(-1, 1, width=32))  # fmt: skip


def loss(values, known=None, **options) -> float:
    values = np.asarray(values, np.float32)
    return float(Sigmoid(**options)(known or all_count(values), values))


def siglip(scores: np.ndarray, gamma: float, bias: float) -> float:
    """Zhai et al. 2023, algorithm 1, of one query: `-sum log sigmoid(z (t x.y + b))`, z = 1, -1."""
    signs = np.where(np.arange(len(scores)) == 0, 1.0, -1.0)
    return float(np.sum(np.logaddexp(0, -signs * (gamma * scores + bias))))


def test_a_click_and_a_rival_by_hand():
    # logits 10 * .7 - 5 = 2 and 10 * .2 - 5 = -3
    expected = np.log1p(np.exp(-2)) + np.log1p(np.exp(-3))
    assert loss([[0.7, 0.2]]) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=25)
@given(
    values=cosines,
    gamma=st.sampled_from([0.5, 10.0, 50.0]),
    bias=st.sampled_from([-10.0, -1.0, 0.0, 2.0]),
)
def test_loss_is_the_paper_s(values, gamma, bias):
    expected = siglip(values[0].astype(float), gamma, bias)
    assert loss(values, gamma=gamma, bias=bias) == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_a_rival_costs_the_same_however_the_click_scored():
    above = [loss([[clicked, 0.2]]) - loss([[clicked, -0.9]]) for clicked in (0.1, 0.9)]
    assert above[0] == pytest.approx(above[1], abs=1e-5)


def test_it_is_least_where_its_probabilities_are_the_shares_of_clicks():
    # Three rivals and a click with one score: the best probability is 1 / 4.
    score = tf.Variable([[0.3] * 4])
    with tf.GradientTape() as tape:
        value = Sigmoid(gamma=1.0, bias=float(np.log(1 / 3)) - 0.3)(all_count(score), score)
    assert float(tf.reduce_sum(tape.gradient(value, score))) == pytest.approx(0, abs=1e-6)


def test_the_correction_multiplies_the_rival_s_part_alone():
    known = labels([[1, 1]], [[0.7, np.log(5)]])
    expected = np.log1p(np.exp(-2)) + 5 * np.log1p(np.exp(-3))
    assert loss([[0.7, 0.2]], known) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("gamma", [0, -1.0, float("nan")])
def test_a_gamma_that_is_not_positive_is_refused(gamma):
    with pytest.raises(ValueError, match="expected gamma > 0"):
        Sigmoid(gamma)
