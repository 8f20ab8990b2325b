"""The first learned matrix of every tower, applied to words as bags of letter n-grams."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.layers.row_sums import sums_of_rows


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordHashing(keras.layers.Layer):
    """Multiplies each word's letter n-gram counts by a matrix, once per distinct word.

    In the papers a word enters as `W l(t)` with `l(t) = W_h x(t)`, its trigram counts. The product
    is equal for every occurrence of the word, so it is computed once for each distinct word of the
    batch and then gathered. This is exact: it gives the same numbers as a `keras.layers.Embedding`
    that is summed over the n-grams of every word, with a fraction of the work.

    Args:
        vocabulary_size: number of n-gram ids, padding (id 0) not counted.
        units: columns of the matrix.
        initializer: initializes the matrix, `(vocabulary_size + 1, units)`; row 0 is never used.
        dropout: fraction of the n-grams of the batch's distinct words that is dropped in training;
            the others are scaled up. This resembles typing errors and rare inflections.

    Attributes:
        uses_sparse_product: whether the layer multiplies by a sparse matrix, see `sums_of_rows`;
            by default it does not. Training on TensorFlow without GPUs and XLA sets it.

    Call arguments:
        word_ngrams: int `(distinct_words, max_ngrams_per_word)`, 0 = padding; or a tuple of such
            matrices, each with words of similar length.
        tokens: int `(texts, max_words)`, row indices of `word_ngrams`; matrices of a tuple count as
            concatenated from top to bottom. None returns the words themselves.

    Returns:
        `(texts, max_words, units)`, zero where the token is padding; without tokens
        `(distinct_words, units)`.

    Reference: Palangi et al. 2016, eq. 1 and fig. 1; Shen et al. 2014, sec. 3.2.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if vocabulary_size < 1 or units < 1:
            raise ValueError(
                f"WordHashing received vocabulary_size={vocabulary_size}, units={units}; "
                "both must be at least 1."
            )
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.initializer = keras.initializers.get(initializer)
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.uses_sparse_product = False

    def build(self, *_: Any) -> None:
        """Makes the matrix; its shape does not depend on the input."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.vocabulary_size + 1, self.units),
            initializer=self.initializer,
        )
        self.built = True

    def call(
        self,
        word_ngrams: keras.KerasTensor | tuple[keras.KerasTensor, ...],
        tokens: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Sums the matrix rows of each word's n-grams, then gathers the words of each text."""
        # TensorFlow's gradient of a gather is a list of rows, with one row per read of an n-gram.
        # Keras squares these rows one by one for norms and Adam's variance, which is not the square
        # of the gradient. The reshape makes the gradient a plain matrix.
        kernel = ops.reshape(self.kernel, (self.vocabulary_size + 1, self.units))
        groups = word_ngrams if isinstance(word_ngrams, (tuple, list)) else (word_ngrams,)
        weights = [self._weights(ids, training) for ids in groups]
        if self.uses_sparse_product:
            words = sums_of_rows(kernel, groups, weights)
        else:
            products = [
                ops.take(kernel, ids, axis=0) * ops.expand_dims(weights_of_ids, -1)
                for ids, weights_of_ids in zip(groups, weights, strict=True)
            ]
            words = ops.concatenate([ops.sum(product, axis=1) for product in products])
        # Word 0 has no n-grams, so padding tokens gather zeros.
        return words if tokens is None else ops.take(words, tokens, axis=0)

    def _weights(self, word_ngrams: keras.KerasTensor, training: bool) -> keras.KerasTensor:
        """The weight of each n-gram in its word's sum: 0 if it is padding or dropped."""
        weights = ops.cast(ops.not_equal(word_ngrams, 0), self.compute_dtype)
        return self.drop(weights, training=training)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "initializer": keras.initializers.serialize(self.initializer),
            "dropout": self.drop.rate,
        }
