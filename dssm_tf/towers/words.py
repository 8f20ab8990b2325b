"""Hashed words: the vector of a word is the sum of the rows of its letter n-grams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from dssm_tf.scores.score import EPSILON, normalize_vectors
from dssm_tf.towers.tower import Tower


@keras.saving.register_keras_serializable(package="dssm_tf")
class Words(Tower):
    """Unit vectors of words, and their sum as the vector of a text.

    Differs from the other towers by the vectors of single words, which the score `maxsim` reads. No
    word depends on the words beside it.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        units: length of a word's vector.
        dropout: see `Tower`.
        ngram_dropout: see `Tower`.
        kwargs: Keras's own arguments: `name`, `dtype`.

    Reference: Huang et al. 2013, sec. 3.2 (word hashing); Bojanowski et al. 2017, "Enriching word
    vectors with subword information", sec. 3.2.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int = 128,
        dropout: float = 0.0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        # Rows of length 1 on average. A word's vector is scaled to length 1, so the length of the
        # rows matters only in comparison with the learning rate.
        initializer = keras.initializers.RandomNormal(stddev=units**-0.5)
        super().__init__(vocabulary_size, units, initializer, dropout, ngram_dropout, **kwargs)

    def word_vectors(self, texts: Mapping[str, Any], training: bool = False) -> keras.KerasTensor:
        """Unit vectors of the distinct words of a text batch, float32 `(distinct_words, units)`.

        A word without a known n-gram has a zero vector.

        Args:
            texts: only `word_ngrams` is read, and a model passes nothing else; see `WordHashing`.
            training: whether to drop numbers and n-grams.
        """
        words = self.hashing(texts["word_ngrams"], training=training)
        return normalize_vectors(self.drop(words, training=training))

    def encode(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """Sums the words' unit vectors: `(texts, units)`."""
        words = ops.cast(words, self.variable_dtype)  # in float16, `EPSILON` would be 0
        squares = ops.sum(ops.square(words), axis=-1, keepdims=True)
        # A word without a vector has a gradient of 0; in float16, a large one would overflow.
        scale = ops.where(squares > 0, ops.rsqrt(ops.maximum(squares, EPSILON)), 0.0)
        vectors = ops.sum(words * scale, axis=1)
        return ops.cast(vectors, self.compute_dtype)

    @property
    def dimension(self) -> int:
        """Length of a word's vector, and of a text's."""
        return int(self.hashing.units)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        del config["initializer"]
        return config | {"units": self.hashing.units}
