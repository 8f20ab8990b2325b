"""A product with a sparse matrix gives the sums of gathered rows, and their gradients."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.layers import WordHashing
from dssm_tf.layers.row_sums import sums_of_rows

pytestmark = pytest.mark.numeric

# Repeated rows, a row of padding alone, groups of different widths.
IDS = (np.array([[3, 1, 3], [0, 0, 0], [2, 0, 0]]), np.array([[1, 4], [4, 4]]))
GENERATOR = np.random.default_rng(0)
MATRIX = GENERATOR.normal(size=(6, 5))
WEIGHTS = tuple(np.where(ids > 0, GENERATOR.uniform(0.5, 2, ids.shape), 0.0) for ids in IDS)


def expected_sums(weights) -> np.ndarray:
    """The sums row by row in float64."""
    return np.array(
        [
            sum((w * MATRIX[i] for i, w in zip(row, row_weights, strict=True)), np.zeros(5))
            for ids, matrix in zip(IDS, weights, strict=True)
            for row, row_weights in zip(ids, matrix, strict=True)
        ]
    )


def test_sums_equal_row_by_row_sums_with_and_without_weights():
    np.testing.assert_allclose(
        sums_of_rows(tf.constant(MATRIX), IDS, WEIGHTS), expected_sums(WEIGHTS), atol=1e-14
    )
    ones = tuple((ids > 0).astype(float) for ids in IDS)
    np.testing.assert_allclose(
        sums_of_rows(tf.constant(MATRIX), IDS), expected_sums(ones), atol=1e-14
    )


def test_the_gradient_is_a_dense_matrix_of_weighted_sums():
    matrix, upstream = tf.Variable(MATRIX), GENERATOR.normal(size=(5, 5))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(sums_of_rows(tf.reshape(matrix, (6, 5)), IDS, WEIGHTS) * upstream)
    gradient = tape.gradient(total, matrix)
    expected = np.zeros_like(MATRIX)
    rows = [row for ids in IDS for row in ids]
    weights = [row for matrix_of_weights in WEIGHTS for row in matrix_of_weights]
    for row, row_weights, out in zip(rows, weights, upstream, strict=True):
        np.add.at(expected, row, row_weights[:, None] * out)
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_allclose(gradient, expected, atol=1e-13)


@pytest.mark.parametrize("training", [False, True])
def test_sparse_word_hashing_equals_gathered_rows_with_equal_dropout(training):
    def hashed(sparse: bool) -> np.ndarray:
        keras.utils.set_random_seed(3)
        layer = WordHashing(5, 4, dropout=0.4, dtype="float64")
        layer.build()
        layer.uses_sparse_product = sparse
        tokens = np.array([[1, 2], [4, 0]])
        return np.array(layer(IDS, tokens, training=training))

    assert hashed(sparse=False).any()
    np.testing.assert_allclose(hashed(sparse=True), hashed(sparse=False), atol=1e-14)
