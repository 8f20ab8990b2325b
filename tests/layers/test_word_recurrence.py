"""Padding, and truncated backpropagation through time, in words of each text."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.layers import PeepholeLSTMCell, TanhCell, WordRecurrence
from tests.layers.cells import assign_parameters
from tests.numerical_gradients import numerical_gradient
from tests.reference.peephole_lstm import LSTMParameters, states

pytestmark = pytest.mark.numeric

CELLS, TRIGRAMS, LENGTHS = 3, 4, [6, 1, 3, 0]
WORDS = np.random.default_rng(5).poisson(1.0, (len(LENGTHS), 6, TRIGRAMS)).astype(float)
MASK = np.arange(6) < np.array(LENGTHS)[:, None]


def lstm(p: LSTMParameters, **options) -> WordRecurrence:
    cell = assign_parameters(PeepholeLSTMCell(CELLS, dtype="float64"), p)
    return WordRecurrence(cell, dtype="float64", **options)


def gradients(layer, sequences, outside, mask=MASK) -> list[np.ndarray]:
    """The gradients of the output's product with `outside` by inputs and weights."""
    sequences = tf.constant(sequences)
    with tf.GradientTape() as tape:
        tape.watch(sequences)
        output = layer(sequences, mask=tf.constant(mask), training=True)
        total = tf.reduce_sum(output * outside)
    return [*map(np.array, tape.gradient(total, [sequences, *layer.trainable_variables]))]


@pytest.mark.parametrize("backwards", [False, True])
def test_padding_at_any_position_does_not_change_the_output(backwards):
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=2)
    layer = lstm(p, go_backwards=backwards)
    words = WORDS[:1, :4] @ p.concatenated("w")
    plain = np.array(layer(words))
    for positions in ([0, 1, 2, 3], [0, 2, 3, 6], [3, 4, 5, 6], [1, 2, 4, 5]):
        spread = np.random.default_rng(0).normal(size=(1, 7, 4 * CELLS))  # random values at padding
        spread[:, positions] = words
        output = np.array(layer(spread, mask=np.isin(np.arange(7), positions)[None]))
        np.testing.assert_allclose(output, plain, atol=1e-14)


def test_without_a_mask_all_words_are_read_and_activations_do_not_depend_on_later_words():
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=2)
    layer, words = lstm(p, bptt_steps=2), tf.constant(WORDS @ p.concatenated("w"))
    everything = tf.ones(words.shape[:2], bool)
    plain, masked = (layer(words, mask=mask, training=True) for mask in (None, everything))
    np.testing.assert_allclose(plain, masked)
    first = layer.activations(words[:, :1], everything[:, :1])
    for name, value in layer.activations(words, everything).items():
        np.testing.assert_allclose(first[name], value[:, :1])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_state_before_the_last_words_is_a_constant(steps, backwards):
    """Finite differences of the paper's equations, from constant states."""
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=0)
    outside = np.random.default_rng(1).normal(size=(len(LENGTHS), CELLS))
    layer = lstm(p, bptt_steps=steps, go_backwards=backwards)
    _, recurrent, bias, peepholes = gradients(layer, WORDS @ p.concatenated("w"), outside)
    texts = [text[:length] for text, length in zip(WORDS, LENGTHS, strict=True)]
    texts = [text[::-1] if backwards else text for text in texts]
    start = [states(p, text[:-steps])[-1] if len(text) > steps else None for text in texts]

    def value() -> float:
        total = 0.0
        for text, before, o in zip(texts, start, outside, strict=True):
            last_states = states(p, text[-steps:], start=before)
            total += o @ last_states[-1][0] if last_states else 0.0
        return total

    def gradient_of(kind: str, count: int) -> list[np.ndarray]:
        return [numerical_gradient(value, getattr(p, f"{kind}{k}")).T for k in range(1, count + 1)]

    expected = np.concatenate(gradient_of("rec", 4), axis=1)
    np.testing.assert_allclose(recurrent, expected, atol=1e-8)
    np.testing.assert_allclose(bias, np.concatenate(gradient_of("b", 4)), atol=1e-8)
    np.testing.assert_allclose(peepholes, gradient_of("p", 3), atol=1e-8)


@pytest.mark.parametrize("backwards", [False, True])
def test_only_the_last_words_that_are_read_have_a_gradient(backwards):
    p = LSTMParameters.random(TRIGRAMS, CELLS, seed=2)
    layer = lstm(p, bptt_steps=2, go_backwards=backwards)
    # Padding in the middle does not count as a word.
    mask = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0]], bool)
    gradient, *_ = gradients(layer, WORDS[:2] @ p.concatenated("w"), np.ones((2, CELLS)), mask)
    first = [1, 1, 0, 0, 0, 0] if backwards else [0, 0, 0, 1, 0, 1]
    last = [first, [0, 1, 0, 0, 0, 0]]
    assert gradient.any(axis=-1).astype(int).tolist() == last


@pytest.mark.parametrize("masked", [True, False])  # without a mask, all tokens are words
def test_the_gradient_is_truncated_when_compiled_for_texts_of_any_length(masked):
    keras.utils.set_random_seed(0)
    layer = WordRecurrence(TanhCell(2), bptt_steps=2)
    layer.build((None, None, 2))

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, None], bool)]
    )
    def gradient(sequences, mask):
        with tf.GradientTape() as tape:
            tape.watch(sequences)
            total = tf.reduce_sum(layer(sequences, mask=mask if masked else None, training=True))
        return tape.gradient(total, sequences)

    for length in (1, 4):
        value = gradient(tf.ones((1, length, 2)), tf.ones((1, length), bool)).numpy()
        has_gradient = np.arange(length) >= length - 2
        assert value.any(axis=-1).tolist() == [has_gradient.tolist()]
