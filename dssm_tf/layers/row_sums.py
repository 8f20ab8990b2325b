"""Weighted sums of rows of a matrix, without a copy of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras


def sums_of_rows(
    matrix: Any, ids: Sequence[Any], weights: Sequence[Any] | None = None
) -> keras.KerasTensor:
    """Weighted sums of matrix rows, as one sparse product; needs TensorFlow.

    Gathering the rows, as `keras.ops.take` does, gives the same sums up to rounding, but needs a
    copy of each row, and one more for its gradient: with 512 columns and 70,000 ids, 140 MB each.
    XLA does not compile the sparse product.

    Args:
        matrix: float `(rows, columns)`.
        ids: int matrices `(sums, ids per sum)`, row indices, 0 = padding. Their widths may differ.
        weights: float matrices of the shapes of `ids`; by default 1 for all ids but padding.

    Returns:
        `(total sums, columns)`: the sums of the first matrix of `ids`, then of the second, etc.
    """
    import tensorflow as tf

    indices, values = [], []
    first_row = tf.constant(0, tf.int64)
    for group, group_ids in enumerate(ids):
        positions = tf.where(tf.not_equal(group_ids, 0))
        if weights is None:
            values.append(tf.ones(tf.shape(positions)[:1], matrix.dtype))
        else:
            values.append(tf.gather_nd(weights[group], positions))
        columns = tf.cast(tf.gather_nd(group_ids, positions), tf.int64)
        indices.append(tf.stack([first_row + positions[:, 0], columns], axis=1))
        first_row += tf.shape(group_ids, tf.int64)[0]
    shape = tf.stack([first_row, tf.shape(matrix, tf.int64)[0]])
    sparse_weights = tf.SparseTensor(tf.concat(indices, 0), tf.concat(values, 0), shape)
    return tf.sparse.sparse_dense_matmul(sparse_weights, matrix)
