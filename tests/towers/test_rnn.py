"""The RNN tower against P16 eq. 1 and the gradient of its appendix."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.towers.rnn import RNN
from tests.reference import tanh_rnn as reference
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

pytestmark = pytest.mark.numeric

SENTENCES = [["cat", "dog", "cat"], [], ["dog"], ["cats", "unseen", "dog", "cat", "aaaa"]]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog", "aaaa") for t in trigrams(word)))
HIDDEN = 3


def pair(seed: int = 0, **options) -> tuple[RNN, reference.RNNParameters]:
    """A tower and the paper's parameters, equal numbers in both."""
    p = reference.RNNParameters.random(len(KNOWN), HIDDEN, seed)
    tower = RNN(len(KNOWN), HIDDEN, dtype="float64", **options)
    tower.build()
    tower.hashing.kernel.assign(np.concatenate([np.full((1, HIDDEN), 9.0), p.w.T]))
    tower.recurrence.cell.recurrent_kernel.assign(p.rec.T)
    tower.recurrence.cell.bias.assign(p.b)
    return tower, p


def test_its_activations_are_the_states_of_the_reference():
    tower, p = pair()
    found = tower.activations(text_batch(SENTENCES, KNOWN))
    assert list(found) == ["recurrence"]
    assert list(found["recurrence"]) == ["y"]
    for values, words in zip(np.array(found["recurrence"]["y"]), SENTENCES, strict=True):
        _, *expected = reference.states(p, count_matrix(words, KNOWN))
        wanted = np.reshape(expected, (-1, HIDDEN))
        np.testing.assert_allclose(values[: len(words)], wanted, atol=1e-14)


@pytest.mark.parametrize("steps", [None, 1, 2, 3, 4, 5, 9])
def test_the_gradient_is_the_paper_s_cut_after_as_many_words(steps):
    tower, p = pair(1, bptt_steps=steps)
    outside = np.random.default_rng(2).normal(size=(len(SENTENCES), HIDDEN))
    with tf.GradientTape() as tape:
        vectors = tower(text_batch(SENTENCES, KNOWN), training=True)
        total = tf.reduce_sum(vectors * outside)
    cell = tower.recurrence.cell
    variables = [tower.hashing.kernel.value, cell.recurrent_kernel.value, cell.bias.value]
    kernel, recurrent, bias = map(np.array, tape.gradient(total, variables))
    parts = [
        reference.gradient(p, count_matrix(words, KNOWN), v, steps)
        for words, v in zip(SENTENCES, outside, strict=True)
    ]
    np.testing.assert_allclose(kernel[1:].T, sum(part.w for part in parts), atol=1e-13)
    np.testing.assert_allclose(recurrent.T, sum(part.rec for part in parts), atol=1e-13)
    np.testing.assert_allclose(bias, sum(part.b for part in parts), atol=1e-13)
    # What is cut is the gradient; the vectors are those without truncation.
    expected = [reference.encode(p, count_matrix(words, KNOWN)) for words in SENTENCES]
    np.testing.assert_allclose(np.array(vectors), expected, atol=1e-14)
