"""The RNN tower against Palangi et al. 2016, eq. 1 and the gradient of its appendix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import tanh_rnn as reference
from tests.towers.paper_towers import BATCH, COUNTS, KNOWN, rnn, vectors_and_gradients

pytestmark = pytest.mark.numeric

HIDDEN = 3


@pytest.mark.parametrize("steps", [None, 1, 2, 3, 4, 5, 9])
def test_vectors_states_and_truncated_gradients_equal_the_reference(steps):
    p = reference.RNNParameters.random(len(KNOWN), HIDDEN, seed=1)
    output_gradients = np.random.default_rng(2).normal(size=(len(COUNTS), HIDDEN))
    tower = rnn(p, bptt_steps=steps)
    vectors, (kernel, recurrent, bias) = vectors_and_gradients(
        tower, output_gradients, training=True
    )
    gradients = [
        reference.gradient(p, words, v, steps)
        for words, v in zip(COUNTS, output_gradients, strict=True)
    ]
    np.testing.assert_allclose(kernel[1:].T, sum(gradient.w for gradient in gradients), atol=1e-13)
    np.testing.assert_allclose(recurrent.T, sum(gradient.rec for gradient in gradients), atol=1e-13)
    np.testing.assert_allclose(bias, sum(gradient.b for gradient in gradients), atol=1e-13)
    # Only the gradient is truncated; states and vectors are not.
    states_of_texts = np.array(tower.activations(BATCH)["recurrence"]["y"])
    for vector, states_of_text, words in zip(vectors, states_of_texts, COUNTS, strict=True):
        states = reference.states(p, words)
        np.testing.assert_allclose(vector, states[-1], atol=1e-14)
        np.testing.assert_allclose([states[0], *states_of_text[: len(words)]], states, atol=1e-14)
