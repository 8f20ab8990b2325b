"""Look-ups of ids by binary search, in core TensorFlow ops.

An exported model therefore has no lookup-table resource that would have to be initialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


class IdTable(NamedTuple):
    """Ids by key, looked up by binary search instead of a table resource.

    Args:
        keys: int64, increasing; the last one is a sentinel, the largest int64.
        ids: int32 `(keys,)`; 0 for the sentinel.
    """

    keys: NDArray[np.int64]
    ids: NDArray[np.int32]

    @classmethod
    def from_keys(cls, keys: NDArray[np.int64], ids: Sequence[int]) -> IdTable:
        """A table from keys `(keys,)` in any order to the ids at the same index."""
        order = np.argsort(keys)
        return cls(
            np.append(keys[order], np.iinfo(np.int64).max),
            np.append(np.array(ids, np.int32)[order], 0).astype(np.int32),
        )

    def __call__(self, keys: tf.Tensor) -> tf.Tensor:
        """The id of each key; 0 for a key that is not in the table."""
        index = tf.searchsorted(tf.constant(self.keys), keys)
        is_known = tf.gather(tf.constant(self.keys), index) == keys
        return tf.where(is_known, tf.gather(tf.constant(self.ids), index), 0)


def hash_texts(texts: tf.Tensor) -> tf.Tensor:
    """A 62-bit hash of each text. Among a million texts, a collision has probability 1e-7."""
    return tf.strings.to_hash_bucket_fast(texts, 1 << 62)
