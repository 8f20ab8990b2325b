"""Once per distinct word gives the numbers of hashing every occurrence."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.layers import WordHashing
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams
from tests.rounding import rounding

pytestmark = pytest.mark.numeric

KNOWN = list(dict.fromkeys(t for w in ("cat", "aaaa", "dog", "catalog") for t in trigrams(w)))
# Repeated words, a repeated trigram, an unseen word, a partly unseen one, an empty text.
TEXTS = [["cat", "aaaa", "cat"], [], ["zzz"], ["dog", "cats", "catalog", "aaaa", "cat"]]
UNITS = 5


def layer(**options) -> WordHashing:
    keras.utils.set_random_seed(0)
    made = WordHashing(len(KNOWN), UNITS, dtype="float64", **options)
    made.build()
    return made


def dense_counts() -> np.ndarray:
    """`(texts, longest text, trigrams)`, zero beyond a text's end."""
    counts = np.zeros((len(TEXTS), max(map(len, TEXTS)), len(KNOWN)))
    for row, words in enumerate(TEXTS):
        counts[row, : len(words)] = count_matrix(words, KNOWN)
    return counts


def test_one_word_by_hand():
    made = WordHashing(3, 2)
    made.build()
    made.kernel.assign([[9.0, 9.0], [1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    # Trigrams 1, 3, 3 of word 1: (1 + 4 + 4, 10 + 40 + 40); row 0 never counts.
    words = np.array(made(np.array([[0, 0, 0, 0], [1, 3, 3, 0]])))
    assert words.tolist() == [[0.0, 0.0], [9.0, 90.0]]


def test_the_result_is_the_product_with_the_dense_counts():
    made, batch = layer(), text_batch(TEXTS, KNOWN)
    expected = dense_counts() @ made.kernel.numpy()[1:]
    found = np.array(made(batch["word_ngrams"], batch["tokens"]))
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_the_gradient_is_that_of_the_dense_product():
    made, batch = layer(), text_batch(TEXTS, KNOWN)
    outside = np.random.default_rng(1).normal(size=(len(TEXTS), max(map(len, TEXTS)), UNITS))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(made(batch["word_ngrams"], batch["tokens"]) * outside)
    (gradient,) = tape.gradient(total, made.trainable_variables)
    expected = np.einsum("twk,twu->ku", dense_counts(), outside)  # counts^T dY
    np.testing.assert_allclose(np.array(gradient)[1:], expected, atol=1e-13)
    assert not np.array(gradient)[0].any()


def test_the_gradient_is_one_matrix_not_a_list_of_repeated_rows():
    # Keras squares the rows of a tf.IndexedSlices one by one: a trigram read twice with gradient
    # 1 would count 1 + 1 in a norm or in Adam's variance where (1 + 1)^2 is right.
    made = layer()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(made(np.array([[0, 0], [1, 1], [1, 2]])))
    (gradient,) = tape.gradient(total, made.trainable_variables)
    assert isinstance(gradient, tf.Tensor)


def test_adam_sees_the_square_of_the_summed_gradient():
    made = WordHashing(1, 1, initializer="zeros")
    made.build()
    adam = keras.optimizers.Adam(learning_rate=0.5, epsilon=0.0)
    for readings in (1, 3):  # gradients 1 and 3
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(made(np.ones((1, readings), np.int32)))
        adam.apply(tape.gradient(total, made.trainable_variables), made.trainable_variables)
    # m = .9 * .1 * 1 + .1 * 3, v = .999 * .001 * 1 + .001 * 9, each over 1 - beta^2; the first
    # step is exactly the learning rate.
    m = (0.09 + 0.3) / (1 - 0.9**2)
    v = (0.000999 + 0.009) / (1 - 0.999**2)
    # In float32, 1 - beta^2 is what the roundings of numbers near 1 leave.
    precision = rounding(1, 1 / (1 - 0.999**2))
    assert float(made.kernel[1, 0]) == pytest.approx(-0.5 - 0.5 * m / np.sqrt(v), rel=precision)


def test_padding_changes_nothing():
    made, batch = layer(), text_batch(TEXTS, KNOWN)
    plain = np.array(made(batch["word_ngrams"], batch["tokens"]))
    wide = np.array(
        made(
            np.pad(batch["word_ngrams"], [(0, 3), (0, 4)]),
            np.pad(batch["tokens"], [(0, 2), (0, 1)]),
        )
    )
    size = np.abs(made.kernel).max() * batch["word_ngrams"].shape[1]
    same = rounding(batch["word_ngrams"].shape[1], size)
    np.testing.assert_allclose(wide[: len(TEXTS), :-1], plain, atol=same)
    assert not wide[len(TEXTS) :].any()
    assert not wide[:, -1].any()


def test_dropout_drops_trigrams_of_a_word_for_all_its_occurrences_and_only_in_training():
    made, batch = layer(dropout=0.5), text_batch([["catalog", "catalog"]], KNOWN)
    plain = np.array(made(batch["word_ngrams"], batch["tokens"]))
    dropped = np.array(made(batch["word_ngrams"], batch["tokens"], training=True))
    np.testing.assert_array_equal(dropped[0, 0], dropped[0, 1])
    assert not np.allclose(plain, dropped)
    np.testing.assert_allclose(plain, dense_counts_of("catalog") @ made.kernel.numpy()[1:])


def dense_counts_of(word: str) -> np.ndarray:
    return np.repeat(count_matrix([word], KNOWN), 2, axis=0)[None]


@pytest.mark.parametrize(("size", "units"), [(0, 4), (4, 0)])
def test_empty_sizes_are_refused(size, units):
    with pytest.raises(ValueError, match=f"vocabulary_size={size}, units={units}"):
        WordHashing(size, units)


def test_its_configuration_makes_an_equal_layer():
    made = WordHashing(
        7, 3, initializer="he_normal", dropout=0.25, dtype="mixed_bfloat16", name="h"
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert again.get_config() == made.get_config()
    assert again.get_config()["dropout"] == 0.25
    assert type(again.initializer) is keras.initializers.HeNormal
