"""The first learned matrix of every tower, applied to words as bags of letter trigrams."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordHashing(keras.layers.Layer):
    """Multiplies each word's letter-trigram counts by a matrix, once per distinct word.

    In the papers a word enters as `W l(t)` with `l(t) = W_h x(t)`, its trigram counts. Both are
    equal for every occurrence of the word, so the product is computed for the distinct words of
    the batch and then gathered. Differs from a `keras.layers.Embedding` that is summed over the
    trigrams of every word by that, and is exact: the same numbers, from a fraction of the work.

    Args:
        vocabulary_size: number of trigram ids, padding (id 0) not counted.
        units: columns of the matrix.
        initializer: of the matrix, `(vocabulary_size + 1, units)`; row 0 is never used.
        dropout: share of the trigrams of the batch's distinct words dropped in training, the
            others scaled up: words as a typing error or a rare inflection would leave them.

    Call arguments:
        word_ngrams: int `(distinct_words, max_ngrams_per_word)`, 0 = padding; or a tuple of
            such matrices, one below another, of words of like length each.
        tokens: int `(texts, max_words)`, rows of `word_ngrams`; or None for the words alone.

    Returns:
        `(texts, max_words, units)`, zero where the token is padding; without tokens
        `(distinct_words, units)`.

    Reference: Palangi et al. 2016, eq. 1 and fig. 1; Shen et al. 2014, sec. 3.2.
    """

    def __init__(self, vocabulary_size, units, initializer="glorot_uniform", dropout=0.0, **kwargs):
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

    def build(self, *_):
        """Makes the matrix; its shape does not depend on the input."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.vocabulary_size + 1, self.units),
            initializer=self.initializer,
        )
        self.built = True

    def call(self, word_ngrams, tokens=None, training=False):
        """Sums the matrix rows of each word's trigrams, then gathers the words of each text."""
        # TensorFlow's gradient of a gather is a list of rows in which a trigram comes up as often
        # as it is read; Keras squares those rows one by one for norms and Adam's variance, which
        # is not the square of the gradient. The gradient of a reshape is a plain matrix.
        kernel = ops.reshape(self.kernel, (self.vocabulary_size + 1, self.units))
        if isinstance(word_ngrams, (tuple, list)):
            words = ops.concatenate([self._sums(kernel, part, training) for part in word_ngrams])
        else:
            words = self._sums(kernel, word_ngrams, training)
        # Word 0 has no trigrams, so padding tokens gather zeros.
        return words if tokens is None else ops.take(words, tokens, axis=0)

    def _sums(self, kernel, word_ngrams, training):
        present = ops.cast(ops.not_equal(word_ngrams, 0), self.compute_dtype)
        present = self.drop(present, training=training)
        rows = ops.take(kernel, word_ngrams, axis=0)
        return ops.sum(rows * ops.expand_dims(present, -1), axis=1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "initializer": keras.initializers.serialize(self.initializer),
            "dropout": self.drop.rate,
        }
