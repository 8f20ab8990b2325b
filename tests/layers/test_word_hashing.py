"""Hashing each distinct word once equals hashing every occurrence."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.layers import WordHashing
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams

pytestmark = pytest.mark.numeric

KNOWN = list(dict.fromkeys(t for w in ("cat", "aaaa", "dog", "catalog") for t in trigrams(w)))
# Repeated words, a repeated trigram, an unseen word, a partly unseen one, an empty text.
TEXTS = [["cat", "aaaa", "cat"], [], ["zzz"], ["dog", "cats", "catalog", "aaaa", "cat"]]
UNITS = 5


def build_layer(**options) -> WordHashing:
    keras.utils.set_random_seed(0)
    hashing = WordHashing(len(KNOWN), UNITS, dtype="float64", **options)
    hashing.build()
    return hashing


def test_one_word_by_hand():
    layer = WordHashing(3, 2)
    layer.build()
    layer.kernel.assign([[9.0, 9.0], [1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    # Trigrams 1, 3, 3 of word 1: (1 + 4 + 4, 10 + 40 + 40); row 0 never counts.
    words = np.array(layer(np.array([[0, 0, 0, 0], [1, 3, 3, 0]]), training=True))
    assert words.tolist() == [[0.0, 0.0], [9.0, 90.0]]


def test_result_and_gradient_are_those_of_the_product_with_dense_counts():
    layer, batch = build_layer(), text_batch(TEXTS, KNOWN)
    counts = np.zeros((*batch["tokens"].shape, len(KNOWN)))
    for row, text in enumerate(TEXTS):
        counts[row, : len(text)] = count_matrix(text, KNOWN)
    outside = np.random.default_rng(1).normal(size=(*counts.shape[:2], UNITS))
    with tf.GradientTape() as tape:
        words = layer(batch["word_ngrams"], batch["tokens"])
        total = tf.reduce_sum(words * outside)
    np.testing.assert_allclose(np.array(words), counts @ layer.kernel.numpy()[1:], atol=1e-14)
    (gradient,) = tape.gradient(total, layer.trainable_variables)
    # Keras squares the rows of a tf.IndexedSlices one by one. A trigram that is read twice with
    # gradient 1 would count 1 + 1 in a norm or in Adam's variance; (1 + 1)^2 is right.
    assert isinstance(gradient, tf.Tensor)
    expected = np.einsum("twk,twu->ku", counts, outside)  # counts^T dY
    np.testing.assert_allclose(np.array(gradient)[1:], expected, atol=1e-13)
    assert not np.array(gradient)[0].any()


def test_dropout_drops_trigrams_of_a_word_for_all_its_occurrences_and_only_in_training():
    layer, batch = build_layer(dropout=0.5), text_batch([["catalog", "catalog"]], KNOWN)
    plain = np.array(layer(batch["word_ngrams"], batch["tokens"]))
    dropped = np.array(layer(batch["word_ngrams"], batch["tokens"], training=True))
    np.testing.assert_array_equal(dropped[0, 0], dropped[0, 1])
    assert not np.allclose(plain, dropped)
    expected = count_matrix(["catalog"] * 2, KNOWN) @ layer.kernel.numpy()[1:]
    np.testing.assert_allclose(plain[0], expected)
