"""The RNN tower against P16 eq. 1 and the gradient of its appendix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import tanh_rnn as reference
from tests.towers.paper_towers import BATCH, COUNTS, KNOWN, learned, rnn

pytestmark = pytest.mark.numeric

HIDDEN = 3


@pytest.mark.parametrize("steps", [None, 1, 2, 3, 4, 5, 9])
def test_states_and_vectors_are_the_paper_s_and_the_gradient_is_cut_after_as_many_words(steps):
    p = reference.RNNParameters.random(len(KNOWN), HIDDEN, seed=1)
    outside = np.random.default_rng(2).normal(size=(len(COUNTS), HIDDEN))
    tower = rnn(p, bptt_steps=steps)
    vectors, (kernel, recurrent, bias) = learned(tower, outside, training=True)
    parts = [
        reference.gradient(p, words, v, steps) for words, v in zip(COUNTS, outside, strict=True)
    ]
    np.testing.assert_allclose(kernel[1:].T, sum(part.w for part in parts), atol=1e-13)
    np.testing.assert_allclose(recurrent.T, sum(part.rec for part in parts), atol=1e-13)
    np.testing.assert_allclose(bias, sum(part.b for part in parts), atol=1e-13)
    # What is cut is the gradient; states and vectors are those without truncation.
    shown = np.array(tower.activations(BATCH)["recurrence"]["y"])
    for vector, read, words in zip(vectors, shown, COUNTS, strict=True):
        states = reference.states(p, words)
        np.testing.assert_allclose(vector, states[-1], atol=1e-14)
        np.testing.assert_allclose([states[0], *read[: len(words)]], states, atol=1e-14)
