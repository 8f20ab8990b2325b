"""CLSM: the convolutional latent semantic model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.layers import WordNgramConvolution
from dssm_tf.towers.tower import Tower


@keras.saving.register_keras_serializable(package="dssm_tf")
class CLSM(Tower):
    """A convolution over windows of words, and for each feature the maximum over the text.

        h_t = tanh(W_c l_t), l_t the letter n-gram counts of the window around word t
        v(i) = max_t h_t(i), over the words of the text
        y = tanh(W_s v)

    Differs from DSSM by word order within a window and by the maximum in place of the sum. No
    layer has a bias, as in the paper.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        window: words in a window, odd; S14 has 1, 3 and 5.
        features: units of the convolution (K); S14 has 300, P16 288.
        widths: units of each tanh layer after the maximum (W_s); the last is the semantic
            vector's length (L). S14 has one layer of 128 units, P16 one of 96. More layers are an
            extension that S14 sec. 3.5 mentions.
        initializer: see `Tower`.
        dropout: see `Tower`.
        ngram_dropout: see `Tower`.
        kwargs: Keras's own arguments: `name`, `dtype`.

    Reference: Shen et al. 2014, sec. 3, eq. 1-3; Palangi et al. 2016, table IV.
    """

    def __init__(
        self,
        vocabulary_size: int,
        window: int = 3,
        features: int = 300,
        widths: Sequence[int] = (128,),
        initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        widths = self.check_widths(widths)
        convolution = WordNgramConvolution(
            window, features, name="convolution", dtype=kwargs.get("dtype")
        )
        super().__init__(
            vocabulary_size, window * features, initializer, dropout, ngram_dropout, **kwargs
        )
        self.window = window
        self.features = features
        self.widths = widths
        self.convolution = convolution
        self.semantic = [
            keras.layers.Dense(
                units,
                activation="tanh",
                use_bias=False,
                name=f"semantic_{i}",
                dtype=self.dtype_policy,
            )
            for i, units in enumerate(widths, start=1)
        ]

    def build(self, *_: Any) -> None:
        """Builds the convolution and the semantic layers."""
        self.convolution.build()
        for layer, units in zip(self.semantic, (self.features, *self.widths), strict=False):
            layer.build((None, units))
        super().build()

    def encode(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """Convolution, maximum over the words, tanh layers: `(texts, widths[-1])`."""
        # The maximum of tanh is tanh of the maximum, which is computed once per text.
        vectors = ops.tanh(ops.max(self._windows(words, present), axis=1))
        for layer in self.semantic:
            vectors = layer(vectors)
        return vectors

    def activations(self, texts: Mapping[str, keras.KerasTensor]) -> keras.KerasTensor:
        """`h_t` of eq. 2: the features of the window around each word of a text batch.

        Returns:
            `(texts, max_words, features)`, -1 at padding; its maximum over the words is `v`.
        """
        words = self.hashing(texts["word_ngrams"], texts["tokens"])
        return ops.tanh(self._windows(words, ops.not_equal(texts["tokens"], 0)))

    def _windows(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """`W_c l_t` of each word, minus infinity at padding: `(texts, max_words, features)`."""
        inputs = self.convolution(words, present)
        # With minus infinity, padding is never the maximum. Adding it is cheaper than selecting,
        # because the gradient of a sum costs nothing.
        excluded = ops.where(present, 0.0, -float("inf"))
        return inputs + ops.cast(ops.expand_dims(excluded, -1), inputs.dtype)

    @property
    def dimension(self) -> int:
        """Length of a semantic vector."""
        return self.widths[-1]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "window": self.window,
            "features": self.features,
            "widths": list(self.widths),
        }
