"""The pairwise logistic loss: a value by hand, the paper's formula, a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.losses.click_softmax import ClickSoftmax
from dssm_tf.losses.pairwise_logistic import PairwiseLogistic
from tests.labels import all_count, labels

pytestmark = pytest.mark.numeric

cosines = arrays(np.float32, st.tuples(st.just(1), st.integers(2, 6)),
                 elements=st.floats(-1, 1, width=32))  # fmt: skip
gammas = st.sampled_from([0.5, 1.0, 10.0, 50.0])


def loss(values, known=None, gamma=10.0) -> float:
    values = np.asarray(values, np.float32)
    return float(PairwiseLogistic(gamma)(known or all_count(values), values))


def ranknet(scores: np.ndarray, gamma: float) -> float:
    """Burges et al. 2005, eq. 3, `-P o + log(1 + exp(o))`, summed over pairs with P = 1."""
    odds = gamma * (scores[0] - scores[1:])
    return float(np.sum(-odds + np.logaddexp(0, odds)))


def test_two_rivals_by_hand():
    # log(1 + exp(-10 * .4)) + log(1 + exp(-10 * -.1))
    expected = np.log1p(np.exp(-4)) + np.log1p(np.exp(1))
    assert loss([[0.5, 0.1, 0.6]]) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=25)
@given(values=cosines, gamma=gammas)
def test_loss_is_the_paper_s(values, gamma):
    assert loss(values, gamma=gamma) == pytest.approx(
        ranknet(values[0].astype(float), gamma), rel=1e-5, abs=1e-4
    )


@settings(max_examples=25)
@given(values=cosines, gamma=gammas, shift=st.floats(-1, 1, width=32))
def test_only_differences_of_scores_count(values, gamma, shift):
    assert loss(values + shift, gamma=gamma) == pytest.approx(
        loss(values, gamma=gamma), rel=1e-4, abs=1e-3
    )


@settings(max_examples=25)
@given(values=cosines, gamma=gammas)
def test_with_one_rival_it_is_the_softmax(values, gamma):
    pair = values[:, :2]
    softmax = float(ClickSoftmax(gamma)(all_count(pair), pair))
    assert loss(pair, gamma=gamma) == pytest.approx(softmax, rel=1e-4, abs=1e-4)


def test_the_correction_multiplies_the_rival_s_part():
    known = labels([[1, 1]], [[0.7, np.log(5)]])  # that of the clicked one has no part
    assert loss([[0.5, 0.1]], known) == pytest.approx(5 * loss([[0.5, 0.1]]), rel=1e-5)


@pytest.mark.parametrize("gamma", [0, -1.0, float("nan")])
def test_a_gamma_that_is_not_positive_is_refused(gamma):
    with pytest.raises(ValueError, match="expected gamma > 0"):
        PairwiseLogistic(gamma)
