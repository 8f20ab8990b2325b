"""The losses of clicks equal hand-computed values and the papers' formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.losses import ClickSoftmax
from tests.components import build_loss
from tests.labels import unmasked_labels
from tests.losses.values import gradient, losses_per_query
from tests.reference import click_softmax as reference

pytestmark = pytest.mark.numeric

cosines = arrays(float, st.tuples(st.just(1), st.integers(2, 6)), elements=st.floats(-1, 1))
gammas = st.sampled_from([0.5, 1.0, 10.0, 50.0])


def ranknet(scores: np.ndarray, gamma: float) -> float:
    """Burges et al. 2005, eq. 3, `-P o + log(1 + exp(o))`, summed over pairs with P = 1."""
    log_odds = gamma * (scores[0] - scores[1:])
    return float(np.sum(-log_odds + np.logaddexp(0, log_odds)))


def hinge(scores: np.ndarray, margin: float) -> float:
    """Joachims 2002: the sum of the slack variables, `max(0, margin - clicked + negative)`."""
    return sum(max(0.0, margin - scores[0] + negative) for negative in scores[1:])


def siglip(scores: np.ndarray, gamma: float, bias: float) -> float:
    """Zhai et al. 2023, algorithm 1, for one query: `-sum log sigmoid(z (t x.y + b))`, z = +-1."""
    signs = np.where(np.arange(len(scores)) == 0, 1.0, -1.0)
    return float(np.sum(np.logaddexp(0, -signs * (gamma * scores + bias))))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        # softmax(10 * [0.5, 0.1])[0] = 1 / (1 + exp(-4))
        ("click_softmax", [0.5, 0.1], np.log1p(np.exp(-4))),
        ("click_softmax", [0.3] * 5, np.log(5)),
        # log(1 + exp(-10 * .4)) + log(1 + exp(-10 * -.1))
        ("pairwise_logistic", [0.5, 0.1, 0.6], np.log1p(np.exp(-4)) + np.log1p(np.exp(1))),
        # .2 - .5 + .4 = .1; .2 - .5 + .1 = -.2, so the loss is 0
        ("hinge", [0.5, 0.4, 0.1], 0.1),
        # logits 10 * .7 - 5 = 2 and 10 * .2 - 5 = -3
        ("sigmoid", [0.7, 0.2], np.log1p(np.exp(-2)) + np.log1p(np.exp(-3))),
    ],
)
def test_a_loss_equals_the_hand_computed_value(name, values, expected):
    assert losses_per_query(build_loss(name), [values], unmasked_labels([values])) == pytest.approx(
        [expected]
    )


@settings(max_examples=50)
@given(values=cosines, gamma=gammas, margin=st.sampled_from([0.05, 0.2, 1.0]),
       bias=st.sampled_from([-10.0, -1.0, 0.0, 2.0]))  # fmt: skip
def test_a_loss_equals_the_formula_of_its_paper(values, gamma, margin, bias):
    for name, oracle, options in (
        ("click_softmax", reference.loss, {"gamma": gamma}),
        ("pairwise_logistic", ranknet, {"gamma": gamma}),
        ("hinge", hinge, {"margin": margin}),
        ("sigmoid", siglip, {"gamma": gamma, "bias": bias}),
    ):
        loss = losses_per_query(build_loss(name, **options), values, unmasked_labels(values))
        assert loss == pytest.approx([oracle(values[0], **options)], abs=1e-12), name


@given(values=cosines, gamma=gammas)
def test_the_gradient_of_the_softmax_equals_the_formula_of_the_paper(values, gamma):
    computed = gradient(ClickSoftmax(gamma), values, unmasked_labels(values))
    expected = reference.loss_gradient(values[0], gamma)
    np.testing.assert_allclose(computed[0], expected, atol=1e-9 * gamma)
