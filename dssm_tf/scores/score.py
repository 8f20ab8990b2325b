"""The base of all scores: encoded queries and titles in, a matrix of scores out."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import keras
from keras import ops

EPSILON = 1e-12


class Score(keras.layers.Layer, abc.ABC):
    """Compares every query with every title.

    A subclass defines `call`.

    Attributes:
        reads_words: whether `call` reads the vectors of words. If not, it reads one vector per
            text.
    """

    reads_words: ClassVar[bool] = False

    def build(self, *_: Any) -> None:
        """Makes the weights, if the score has any; no weight's shape depends on the input."""
        self.built = True

    @abc.abstractmethod
    def call(self, queries: Any, titles: Any) -> keras.KerasTensor:
        """Scores float32 `(queries, titles)`.

        Args:
            queries: the vectors of the queries, `(queries, dimension)`. If `reads_words`, a text
                batch with the vectors of its distinct words as `word_vectors`.
            titles: the same for titles.
        """


def normalize_vectors(vectors: keras.KerasTensor) -> keras.KerasTensor:
    """Scales vectors `(..., dimension)` to length 1, in float32; a zero vector stays zero."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, EPSILON))
