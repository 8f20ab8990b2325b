"""Integrated gradients: what each letter trigram, and so each word, adds to a cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.model.siamese import normalize_vectors
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.tower import Tower

Array = NDArray[np.float64]

STEPS = 128


class Path(NamedTuple):
    """What was found on the way from words of which nothing is known to the words themselves.

    Attributes:
        trigrams: of each word, what each of its known trigrams adds, in their order.
        start: the cosine at the start, that of as many words without a known trigram.
        gap: the cosine less `start` less all that was added: what the sum of steps missed.
    """

    trigrams: list[Array]
    start: float
    gap: float

    @property
    def words(self) -> Array:
        """What each word adds, `(words,)`."""
        return np.array([one.sum() for one in self.trigrams])


def integrated_gradients(
    tower: Tower, vocabulary: Vocabulary, words: Sequence[str], other: Array, steps: int = STEPS
) -> Path:
    """Follows the cosine from hashed words of zero to those of the text.

    The tower's first matrix adds up the rows of a word's trigrams, so what a word adds is exactly
    the sum of what its trigrams add.

    Args:
        tower: of the text's side.
        vocabulary: its trigrams.
        words: of the text, at least one.
        other: the other text's vector, of length one, `(dimension,)`.
        steps: points on the way, each in the middle of its step.

    Reference: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", eq. 3.
    """
    ids = [np.array(vocabulary.ngram_ids(word), np.int64) for word in words]
    kernel = tower.hashing.kernel.numpy().astype(np.float64)
    hashed = tf.constant(np.stack([kernel[one].sum(axis=0) for one in ids]), tf.float32)
    target = tf.constant(other, tf.float32)

    def cosines(points: tf.Tensor) -> tf.Tensor:
        present = tf.ones(tf.shape(points)[:2], tf.bool)
        return tf.linalg.matvec(normalize_vectors(tower.encode(points, present)), target)

    # Start and end go along: a pass for all of them costs what one for two does.
    middles = (np.arange(steps) + 0.5) / steps
    way = tf.constant(np.concatenate([[0.0], middles, [1.0]]), tf.float32)
    points = way[:, None, None] * hashed
    with tf.GradientTape() as tape:
        tape.watch(points)
        found = cosines(points)
        total = tf.reduce_sum(found[1:-1])
    slopes = tf.reduce_sum(tape.gradient(total, points), axis=0).numpy().astype(np.float64) / steps
    trigrams = [kernel[one] @ slope for one, slope in zip(ids, slopes, strict=True)]
    start, end = float(found[0]), float(found[-1])
    return Path(trigrams, start, end - start - float(sum(one.sum() for one in trigrams)))
