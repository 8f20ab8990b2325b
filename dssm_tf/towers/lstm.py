"""LSTM-RNN: encodes a text by an LSTM with peepholes."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.towers.recurrent import RecurrentTower, serialize_initializer


@keras.saving.register_keras_serializable(package="dssm_tf")
class LSTMRNN(RecurrentTower):
    """Reads the words left to right; `y` after the last word is the semantic vector.

    P16 sec. V trains it without peepholes and forget gate, because texts are short and each starts
    from an empty cell. The parameter count in its table IV agrees: 14.4 million are 2 towers x 3
    matrices x 96 cells x 25,000 trigrams.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        cells: number of LSTM cells, the semantic vector's length. P16 has 32, 64 and 96.
        peepholes: whether the gates also read the cell state.
        forget_gate: whether the forget gate is learned; without it, its value is 1.
        forget_bias: added to the initial bias of the forget gate.
        peephole_initializer: initializes `W_p`.
        recurrent_initializer: initializes the matrices `W_rec`; see `RecurrentTower`.
        bias_initializer: initializes the biases; see `RecurrentTower`.
        bptt_steps: see `RecurrentTower`.
        initializer: see `Tower`.
        dropout: see `Tower`.
        ngram_dropout: see `Tower`.
        kwargs: Keras's own arguments: `name`, `dtype`.

    Reference: Palangi et al. 2016, eq. 2 and fig. 2; Palangi et al. 2014, eq. 1-6.
    """

    def __init__(
        self,
        vocabulary_size: int,
        cells: int = 96,
        peepholes: bool = True,
        forget_gate: bool = True,
        forget_bias: float = 1.0,
        peephole_initializer: Any = "zeros",
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
            cell=PeepholeLSTMCell,
            units=cells,
            matrices_per_word=4 if forget_gate else 3,
            cell_options={
                "recurrent_initializer": serialize_initializer(recurrent_initializer),
                "bias_initializer": serialize_initializer(bias_initializer),
                "peepholes": peepholes,
                "forget_gate": forget_gate,
                "forget_bias": forget_bias,
                "peephole_initializer": serialize_initializer(peephole_initializer),
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
        return config | {"cells": self.units}
