"""The hinge: a value by hand, its formula, what a margin means."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dssm_tf.losses.hinge import Hinge
from tests.labels import all_count, labels

pytestmark = pytest.mark.numeric

cosines = arrays(np.float32, st.tuples(st.just(1), st.integers(2, 6)),
                 elements=st.floats(-1, 1, width=32))  # fmt: skip


def loss(values, known=None, margin=0.2) -> float:
    values = np.asarray(values, np.float32)
    return float(Hinge(margin)(known or all_count(values), values))


def test_one_rival_too_close_and_one_far_away_by_hand():
    # .2 - .5 + .4 = .1; .2 - .5 + .1 = -.2, which costs nothing
    assert loss([[0.5, 0.4, 0.1]]) == pytest.approx(0.1, abs=1e-6)


@settings(max_examples=25)
@given(values=cosines, margin=st.sampled_from([0.05, 0.2, 1.0]))
def test_loss_is_the_slack_of_every_pair(values, margin):
    exact = values[0].astype(float)
    expected = sum(max(0.0, margin - exact[0] + rival) for rival in exact[1:])
    assert loss(values, margin=margin) == pytest.approx(expected, abs=1e-5)


def test_a_rival_a_margin_behind_teaches_nothing():
    scores = tf.Variable([[0.75, 0.5, 0.375]])
    with tf.GradientTape() as tape:
        value = Hinge(0.25 + 0.0625)(all_count(scores), scores)
    # The first rival is .0625 too close, the second .0625 too far to count.
    np.testing.assert_array_equal(tape.gradient(value, scores), [[-1, 1, 0]])


def test_the_correction_multiplies_the_rival_s_part():
    known = labels([[1, 1]], [[0.7, np.log(5)]])
    assert loss([[0.5, 0.4]], known) == pytest.approx(5 * 0.1, rel=1e-5)


@pytest.mark.parametrize("margin", [0, -1.0, float("nan")])
def test_a_margin_that_is_not_positive_is_refused(margin):
    with pytest.raises(ValueError, match="expected margin > 0"):
        Hinge(margin)
