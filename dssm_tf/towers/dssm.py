"""DSSM: the deep structured semantic model on a bag of letter n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.layers.row_sums import sums_of_rows
from dssm_tf.towers.tower import Tower


@keras.saving.register_keras_serializable(package="dssm_tf")
class DSSM(Tower):
    """A feed-forward tower: a bag of letter n-grams through tanh layers.

    The bag of a text is the sum of its words' bags, so the first layer is the sum of the hashed
    words plus a bias. Differs from CLSM and LSTM-RNN by ignoring the order of the words.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        widths: units of each tanh layer; the last is the semantic vector's length. S14 has
            300-300-128, P16 288-96.
        initializer: see `Tower`.
        dropout: see `Tower`.
        ngram_dropout: see `Tower`.
        kwargs: Keras's own arguments: `name`, `dtype`.

    Reference: Huang et al. 2013; Shen et al. 2014, sec. 2.3 and 5.2; Palangi et al. 2016,
    table IV.
    """

    def __init__(
        self,
        vocabulary_size: int,
        widths: Sequence[int] = (300, 300, 128),
        initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        widths = self.check_widths(widths)
        super().__init__(vocabulary_size, widths[0], initializer, dropout, ngram_dropout, **kwargs)
        self.widths = widths
        self.semantic = [
            keras.layers.Dense(
                units, activation="tanh", name=f"semantic_{i}", dtype=self.dtype_policy
            )
            for i, units in enumerate(widths[1:], start=1)
        ]

    def build(self, *_: Any) -> None:
        """Makes the first layer's bias `(widths[0],)` and the further layers."""
        self.bias = self.add_weight(name="bias", shape=(self.widths[0],), initializer="zeros")
        for layer, units in zip(self.semantic, self.widths, strict=False):
            layer.build((None, units))
        super().build()

    def encode_tokens(
        self, words: keras.KerasTensor, tokens: keras.KerasTensor
    ) -> keras.KerasTensor:
        """See `Tower.encode_tokens`. With sparse products, words are summed without gathering."""
        # A subclass may override `encode`, which needs the gathered words.
        overridden = type(self).encode is not DSSM.encode
        if overridden or not self.hashing.uses_sparse_product:
            return super().encode_tokens(words, tokens)
        return self._encode_sums(ops.cast(sums_of_rows(words, [tokens]), self.compute_dtype))

    def encode(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """Sums the words, then tanh layers: `(texts, widths[-1])`."""
        return self._encode_sums(ops.sum(words, axis=1))

    def _encode_sums(self, sums: keras.KerasTensor) -> keras.KerasTensor:
        """Tanh layers on the sum of each text's words, `(texts, widths[0])`."""
        vectors = ops.tanh(sums + self.bias)
        for layer in self.semantic:
            vectors = layer(vectors)
        return vectors

    @property
    def dimension(self) -> int:
        """Length of a semantic vector."""
        return self.widths[-1]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"widths": list(self.widths)}
