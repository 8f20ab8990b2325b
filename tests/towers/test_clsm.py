"""The CLSM tower against S14, from words to semantic vector and back to the gradient."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.towers.clsm import CLSM
from tests.reference import clsm as reference
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

pytestmark = pytest.mark.numeric

SENTENCES = [
    ["cat", "dog", "cat"],
    [],
    ["dog"],
    ["cats", "unseen", "dog", "cat", "aaaa", "dog", "cat"],
    ["unseen"],
]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog", "aaaa") for t in trigrams(word)))
FEATURES = 4


def pair(window: int, widths: tuple[int, ...], seed: int = 0):
    """A tower and the matrices of the paper, equal numbers in both."""
    generator = np.random.default_rng(seed)
    w_c = generator.normal(0, 0.6, (FEATURES, window, len(KNOWN) + 1))
    sizes = zip((FEATURES, *widths), widths, strict=False)
    w_s = [generator.normal(0, 0.8, (units, inputs)) for inputs, units in sizes]
    tower = CLSM(len(KNOWN), window, FEATURES, widths, dtype="float64")
    tower.build()
    blocks = np.concatenate([w_c[:, place, :-1].T for place in range(window)], axis=1)
    tower.hashing.kernel.assign(np.concatenate([np.full((1, window * FEATURES), 9.0), blocks]))
    if window > 1:
        outer = [place for place in range(window) if place != window // 2]
        tower.convolution.padding_word.assign(w_c[:, outer, -1].T)
    for layer, matrix in zip(tower.semantic, w_s, strict=True):
        layer.kernel.assign(matrix.T)
    return tower, w_c.reshape(FEATURES, -1), w_s


@pytest.mark.parametrize("window", [1, 3, 5, 9])
@pytest.mark.parametrize("widths", [(3,), (5, 2)])
def test_vectors_are_those_of_the_reference(window, widths):
    tower, w_c, w_s = pair(window, widths)
    found = np.array(tower(text_batch(SENTENCES, KNOWN)))
    expected = [
        reference.encode(w_c, w_s, count_matrix(words, KNOWN), window) for words in SENTENCES
    ]
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_its_activations_are_the_local_features_of_the_reference(window):
    tower, w_c, _ = pair(window, (3,))
    found = np.array(tower.activations(text_batch(SENTENCES, KNOWN)))
    for values, words in zip(found, SENTENCES, strict=True):
        expected = reference.local_features(w_c, count_matrix(words, KNOWN), window)
        wanted = np.reshape(expected, (-1, FEATURES))
        np.testing.assert_allclose(values[: len(words)], wanted, atol=1e-13)
        assert (values[len(words) :] == -1).all()


@pytest.mark.parametrize("window", [1, 3, 5])
def test_the_gradient_of_the_convolution_is_the_paper_s(window):
    tower, w_c, (w_s,) = pair(window, (3,), seed=1)
    outside = np.random.default_rng(2).normal(size=(len(SENTENCES), 3))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tower(text_batch(SENTENCES, KNOWN)) * outside)
    gradients = tape.gradient(total, tower.trainable_variables)
    found = {v.name: np.array(g) for v, g in zip(tower.trainable_variables, gradients, strict=True)
             if v is tower.hashing.kernel or v.name == "padding_word"}  # fmt: skip
    expected = sum(
        reference.cosine_gradient_of_w_c(w_c, w_s, count_matrix(words, KNOWN), window, v_y)
        for words, v_y in zip(SENTENCES, outside, strict=True)
        if words
    ).reshape(FEATURES, window, len(KNOWN) + 1)
    for place, block in enumerate(np.split(found["kernel"][1:], window, axis=1)):
        np.testing.assert_allclose(block, expected[:, place, :-1].T, atol=1e-13)
    middle = window // 2
    assert not expected[:, middle, -1].any()  # <s> is never the word in the middle
    if window > 1:
        outer = [place for place in range(window) if place != middle]
        np.testing.assert_allclose(found["padding_word"], expected[:, outer, -1].T, atol=1e-13)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_padding_never_wins_the_maximum(window):
    """Every word and `<s>` say minus much; a zero or an `<s>` in the middle would win."""
    tower = CLSM(len(KNOWN), window, 2, (2,), dtype="float64")
    tower.build()
    tower.hashing.kernel.assign(np.full(tower.hashing.kernel.shape, -0.01))
    tower.semantic[0].kernel.assign(np.eye(2))
    if window > 1:
        tower.convolution.padding_word.assign(np.full((window - 1, 2), -0.02))
    batch = text_batch([["cat"], ["dog", "cat", "cat", "cat", "cat", "cat"]], KNOWN)
    # The one word has 3 trigrams, <s> stands in every other place of its window.
    local = np.tanh(-0.03 - 0.02 * (window - 1))
    np.testing.assert_allclose(np.array(tower(batch))[0], np.tanh([local, local]), atol=1e-15)


def test_a_fresh_tower_pads_with_nothing_and_learns_better():
    keras.utils.set_random_seed(0)
    tower = CLSM(len(KNOWN), 3, FEATURES, (3,))
    tower.build()
    assert not tower.convolution.padding_word.numpy().any()
    assert {weight.name for weight in tower.weights} == {"kernel", "padding_word"}  # no bias
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tower(text_batch(SENTENCES, KNOWN)))
    assert np.array(tape.gradient(total, tower.convolution.padding_word.value)).any()
