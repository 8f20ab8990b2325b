"""RNN: encodes a text by a plain recurrent network."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.layers import TanhCell
from dssm_tf.towers.recurrent import RecurrentTower, serialize_initializer


@keras.saving.register_keras_serializable(package="dssm_tf")
class RNN(RecurrentTower):
    """Reads the words left to right; the hidden layer after the last word is the semantic vector.

    Differs from `LSTMRNN` by having no cell state: each step overwrites the hidden layer.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        hidden: neurons, the semantic vector's length. P16 has 288.
        recurrent_initializer: initializes `W_rec`; see `RecurrentTower`.
        bias_initializer: initializes the bias; see `RecurrentTower`.
        bptt_steps: see `RecurrentTower`.
        initializer: see `Tower`.
        dropout: see `Tower`.
        ngram_dropout: see `Tower`.
        kwargs: Keras's own arguments: `name`, `dtype`.

    Reference: Palangi et al. 2016, eq. 1 and fig. 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden: int = 288,
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        bptt_steps: int | None = None,
        initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        ngram_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            cell=TanhCell,
            units=hidden,
            input_matrices=1,
            cell_options={
                "recurrent_initializer": serialize_initializer(recurrent_initializer),
                "bias_initializer": serialize_initializer(bias_initializer),
            },
            bptt_steps=bptt_steps,
            initializer=initializer,
            dropout=dropout,
            ngram_dropout=ngram_dropout,
            **kwargs,
        )

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"hidden": self.units}
