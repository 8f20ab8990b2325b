"""Lists of numbers, of unequal length, as two arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray


class Lists:
    """Lists of whole numbers; looked up by row, in NumPy or in a TensorFlow graph.

    Args:
        lengths: of each list.
        flat: all numbers, list after list.
    """

    def __init__(self, lengths: ArrayLike, flat: ArrayLike) -> None:
        self.splits: NDArray[np.int64] = np.append(0, np.cumsum(lengths)).astype(np.int64)
        self.flat: NDArray[np.int32] = np.asarray(flat, np.int32)

    @classmethod
    def of_arrow(cls, column: pa.ChunkedArray) -> Lists:
        """Those of a column of a table."""
        lists = column.combine_chunks()
        return cls(lists.value_lengths().to_numpy(), lists.flatten().to_numpy())

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[int]]) -> Lists:
        """Those of a Python list of them."""
        rows = list(rows)
        return cls([len(row) for row in rows], [number for row in rows for number in row])

    @classmethod
    def joined(cls, *many: Lists) -> Lists:
        """The lists of one after those of the other."""
        return cls(
            np.concatenate([one.lengths for one in many]),
            np.concatenate([one.flat for one in many]),
        )

    def __len__(self) -> int:
        return len(self.splits) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many numbers each list has."""
        return np.diff(self.splits)

    def of(self, row: int) -> NDArray[np.int32]:
        """A list."""
        return self.flat[self.splits[row] : self.splits[row + 1]]

    @cached_property
    def _tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.init_scope():  # no constants of the graph that is being traced
            return tf.constant(self.splits), tf.constant(self.flat)

    def gather(self, rows: tf.Tensor) -> Any:
        """Lists as a ragged tensor `[rows, numbers]`."""
        bounds, numbers = self._tensors
        start = tf.gather(bounds, rows)
        lengths = tf.gather(bounds, rows + 1) - start
        splits = tf.pad(tf.cumsum(lengths), [[1, 0]])
        flat = tf.range(splits[-1]) + tf.repeat(start - splits[:-1], lengths)
        return tf.RaggedTensor.from_row_splits(tf.gather(numbers, flat), splits, validate=False)
