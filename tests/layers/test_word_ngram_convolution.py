"""The convolution by hand: shift and add, and the padding word at the ends of a text."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.layers import WordNgramConvolution

pytestmark = pytest.mark.numeric


def build_layer(window: int, units: int = 1) -> WordNgramConvolution:
    layer = WordNgramConvolution(window, units, dtype="float64")
    layer.build()
    return layer


def test_three_words_by_hand():
    layer = build_layer(3)
    layer.padding_word.assign([[1000.0], [2000.0]])
    # For the words 1, 2, 3 the products of the left, middle and right position.
    words = np.array([[[1.0, 10.0, 100.0], [2.0, 20.0, 200.0], [3.0, 30.0, 300.0]]])
    sums = np.array(layer(words, np.ones((1, 3), bool)))
    # The windows <s> 1 2, 1 2 3, 2 3 <s>: left + middle + right position.
    assert sums[0, :, 0].tolist() == [1000 + 10 + 200, 1 + 20 + 300, 2 + 30 + 2000]


def test_one_word_in_a_window_wider_than_the_matrix():
    layer = build_layer(5)
    layer.padding_word.assign([[1.0], [20.0], [300.0], [4000.0]])
    sums = np.array(layer(np.array([[[7.0, 7.0, 0.5, 7.0, 7.0]]]), np.array([[True]])))
    assert sums.tolist() == [[[4321.5]]]  # <s> <s> word <s> <s>


def test_a_window_of_one_has_no_padding_word():
    layer = build_layer(1, 3)
    words = np.random.default_rng(0).normal(size=(2, 4, 3))
    np.testing.assert_array_equal(np.array(layer(words, np.ones((2, 4), bool))), words)
    assert layer.weights == []
