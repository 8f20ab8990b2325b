"""The base of all scores: encoded queries and titles in, a matrix of scores out."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from dssm_tf.layers import WordHashing

EPSILON = 1e-12


class Score(keras.layers.Layer, abc.ABC):
    """Compares every query with every title.

    A subclass defines `call`.

    Attributes:
        reads_words: whether `call` reads the vectors of words. If not, it reads one vector per
            text.
    """

    reads_words: ClassVar[bool] = False

    def set_sparse_products(self, enabled: bool) -> None:
        """Sets whether the score multiplies by sparse matrices, if it can; see `WordHashing`."""

    @property
    def hashings(self) -> list[WordHashing]:
        """The score's own layers with a matrix of n-gram rows, those of the towers not included."""
        return []

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


def apply_to_words(
    function: Callable[[tuple[Any, ...]], keras.KerasTensor],
    queries: Mapping[str, Any],
    titles: Mapping[str, Any],
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Applies a function once to the distinct words of two text batches.

    One call reads the matrix of a `WordHashing` once, so its gradient, which is as large as the
    matrix, is computed once and not added up.

    Args:
        function: returns a row for each word of a tuple of `word_ngrams`, see `WordHashing`.
        queries: text batch.
        titles: text batch.

    Returns:
        The rows of the words of the queries, and those of the titles.
    """
    query_groups, title_groups = map(_word_groups, (queries, titles))
    rows = function((*query_groups, *title_groups))
    count = sum(ops.shape(ids)[0] for ids in query_groups)
    return rows[:count], rows[count:]


def _word_groups(texts: Mapping[str, Any]) -> tuple[Any, ...]:
    groups = texts["word_ngrams"]
    return tuple(groups) if isinstance(groups, (tuple, list)) else (groups,)


def normalize_vectors(vectors: keras.KerasTensor) -> keras.KerasTensor:
    """Scales vectors `(..., dimension)` to length 1, in float32; a zero vector stays zero."""
    return unit_vectors(ops.cast(vectors, "float32"))


def unit_vectors(vectors: keras.KerasTensor) -> keras.KerasTensor:
    """Scales vectors `(..., dimension)` to length 1, in their own precision.

    A zero vector stays zero, and has a gradient of 0; otherwise its gradient would be huge.
    """
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.where(squares > 0, ops.rsqrt(ops.maximum(squares, EPSILON)), 0.0)
