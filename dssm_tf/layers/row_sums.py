"""Weighted sums of rows of a matrix, without a copy of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras


def sums_of_rows(
    matrix: Any, ids: Sequence[Any], weights: Sequence[Any] | None = None
) -> keras.KerasTensor:
    """The weighted sums of some rows of a matrix, with TensorFlow only.

    It multiplies by a sparse matrix. Gathering the rows, as `keras.ops.take` does, gives the same
    sums, but needs a copy of each row, and one more for the gradient: with 512 columns and 70,000
    ids, 140 MB each. XLA does not compile the sparse product; on GPUs it fuses the gathering and
    the sum, which needs no copies either.

    Args:
        matrix: float `(rows, columns)`.
        ids: int matrices `(sums, ids per sum)`, row indices, 0 = padding. They count as
            concatenated from top to bottom, padded to equal width.
        weights: float matrices of the shapes of `ids`; by default 1 for all ids but padding.

    Returns:
        `(all sums, columns)`.
    """
    import tensorflow as tf

    cells, values = [], []
    first_row = tf.constant(0, tf.int64)
    for index, matrix_of_ids in enumerate(ids):
        positions = tf.where(tf.not_equal(matrix_of_ids, 0))
        if weights is None:
            values.append(tf.ones(tf.shape(positions)[:1], matrix.dtype))
        else:
            values.append(tf.gather_nd(weights[index], positions))
        columns = tf.cast(tf.gather_nd(matrix_of_ids, positions), tf.int64)
        cells.append(tf.stack([first_row + positions[:, 0], columns], axis=1))
        first_row += tf.shape(matrix_of_ids, tf.int64)[0]
    shape = tf.stack([first_row, tf.shape(matrix, tf.int64)[0]])
    factors = tf.SparseTensor(tf.concat(cells, 0), tf.concat(values, 0), shape)
    return tf.sparse.sparse_dense_matmul(factors, matrix)
