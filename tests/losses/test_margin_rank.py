"""The loss of the DSE family by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.losses.margin_rank import MarginRank
from tests.labels import all_count, labels


def margin_rank(scores, known=None) -> float:
    return float(MarginRank()(known or all_count(scores), np.asarray(scores, np.float32)))


def test_the_hinge_is_the_margin_minus_the_lead_of_the_relevant_title():
    # max(0, 1 - 2 + 1.5) = 0.5; max(0, 1 - 2 + 0.5) = 0; max(0, 1 - 2 + 3) = 2
    assert margin_rank([[2, 1.5, 0.5, 3]]) == pytest.approx(2.5 / 3)


def test_a_tuple_that_does_not_count_has_no_loss_and_no_gradient():
    assert margin_rank([[2, 1.5, 9]], labels([[1, 1, 0]])) == pytest.approx(0.5)
    scores = tf.Variable([[2.0, 1.5, 9.0]])
    with tf.GradientTape() as tape:
        value = MarginRank()(labels([[1, 1, 0]]), scores)
    # W14 eq. 19: minus one for the relevant title, one for the irrelevant one.
    assert tape.gradient(value, scores).numpy().tolist() == [[-1, 1, 0]]


def test_a_margin_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="expected margin > 0"):
        MarginRank(0)
