"""The base of all towers: a text batch in, one semantic vector per text out."""

from __future__ import annotations

import abc
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.layers import WordHashing


class Tower(keras.layers.Layer, abc.ABC):
    """Encodes texts as semantic vectors.

    A subclass defines `encode`. The base has the word-hashing layer, and returns a zero vector for
    a text without any known letter n-gram, so that its cosine with any text is 0. Otherwise the
    biases alone would be its vector, and the cosine of two such texts would be 1.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        hashed_units: columns of the first matrix.
        initializer: initializes the first matrix.
        dropout: fraction of the hashed words' entries dropped in training, in [0, 1).
        ngram_dropout: fraction of the words' letter n-grams dropped in training, in [0, 1).
        kwargs: Keras's own arguments: `name`, `dtype`.

    Call arguments:
        texts: dict with `word_ngrams` int `(distinct_words, max_ngrams_per_word)` and `tokens`
            int `(texts, max_words)`; 0 is padding in both. To save padding, either may be a tuple
            of such matrices, each with rows of similar length. Row indices then count the rows of
            all matrices, concatenated from top to bottom, and `rows` int `(texts,)` has the row
            index of each text in `tokens`.

    Returns:
        `(texts, dimension)`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hashed_units: int,
        initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for name, fraction in (("dropout", dropout), ("ngram_dropout", ngram_dropout)):
            if not 0 <= fraction < 1:
                raise ValueError(
                    f"{type(self).__name__} received {name}={fraction}; expected 0 <= {name} < 1."
                )
        self.vocabulary_size = vocabulary_size
        # Words are hashed in the precision of the weights. A gradient sums over all occurrences of
        # an n-gram: in bfloat16 the later ones would be lost, and a GPU adds bfloat16 to one row a
        # hundred times more slowly.
        full_precision = self.variable_dtype
        self.hashing = WordHashing(
            vocabulary_size,
            hashed_units,
            initializer,
            ngram_dropout,
            name="hashing",
            dtype=full_precision,
        )
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=full_precision)

    @classmethod
    def check_widths(cls, widths: Sequence[int]) -> tuple[int, ...]:
        """The numbers of units of some layers.

        Raises:
            ValueError: there is none, or one is not a positive whole number.
        """
        if (
            not isinstance(widths, Sequence)
            or not widths
            or any(
                not isinstance(width, numbers.Integral) or isinstance(width, bool) or width < 1
                for width in widths
            )
        ):
            raise ValueError(
                f"{cls.__name__} received widths={widths}; expected one or more whole numbers, "
                "each >= 1."
            )
        return tuple(widths)

    def build(self, *_: Any) -> None:
        """Builds the sublayers; no weight's shape depends on the input."""
        self.hashing.build()
        self.built = True

    def call(self, texts: Mapping[str, Any], training: bool = False) -> keras.KerasTensor:
        """Hashes the words, encodes the texts, and zeroes the vectors of texts without n-grams."""
        word_ngrams = texts["word_ngrams"]
        words = self.hashing(word_ngrams, training=training)
        words = self.drop(words, training=training)
        known = _have_ngrams(word_ngrams)
        if "rows" not in texts:
            return self._vectors(words, known, texts["tokens"])
        vectors = [self._vectors(words, known, tokens) for tokens in texts["tokens"]]
        return ops.take(ops.concatenate(vectors), texts["rows"], axis=0)

    def _vectors(
        self, words: keras.KerasTensor, known: keras.KerasTensor, tokens: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Vectors of the texts of one token matrix; zero for texts without a known n-gram.

        Args:
            words: the hashed words, `(distinct_words, hashed_units)`.
            known: 1 for words with a known n-gram, else 0, int32 `(distinct_words,)`.
            tokens: `(texts, max_words)`.
        """
        vectors = self.encode_tokens(words, tokens)
        has_ngrams = ops.max(ops.take(known, tokens, axis=0), axis=1, keepdims=True)
        return vectors * ops.cast(has_ngrams, vectors.dtype)

    def encode_tokens(
        self, words: keras.KerasTensor, tokens: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Semantic vectors `(texts, dimension)`.

        This method gathers the words of each text and calls `encode`. A subclass may avoid that.

        Args:
            words: the hashed words, `(distinct_words, hashed_units)`.
            tokens: `(texts, max_words)`, rows of `words`, 0 = padding.
        """
        words_of_texts = ops.cast(ops.take(words, tokens, axis=0), self.compute_dtype)
        return self.encode(words_of_texts, ops.not_equal(tokens, 0))

    @abc.abstractmethod
    def encode(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """Semantic vectors `(texts, dimension)` of hashed words.

        Args:
            words: `(texts, max_words, hashed_units)`, zero at padding.
            present: bool `(texts, max_words)`, false at padding.
        """

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Length of a semantic vector."""

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "vocabulary_size": self.vocabulary_size,
            "initializer": keras.initializers.serialize(self.hashing.initializer),
            "dropout": self.drop.rate,
            "ngram_dropout": self.hashing.drop.rate,
        }


def _have_ngrams(word_ngrams: Any) -> keras.KerasTensor:
    """Whether each word has a known letter n-gram, 1 or 0, int32 `(distinct_words,)`.

    Args:
        word_ngrams: as in the call arguments of `Tower`: one matrix, or several.
    """
    matrices = word_ngrams if isinstance(word_ngrams, (tuple, list)) else (word_ngrams,)
    known = [ops.any(ops.not_equal(matrix, 0), axis=1) for matrix in matrices]
    return ops.cast(ops.concatenate(known), "int32")
