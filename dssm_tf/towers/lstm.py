"""LSTM-RNN: encodes a text by an LSTM with peepholes."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.towers.recurrent import RecurrentTower, serialize_initializer


@keras.saving.register_keras_serializable(package="dssm_tf")
class LSTMRNN(RecurrentTower):
    """Reads the words left to right; `y(t)` after the last word is the semantic vector.

    By default it is the full LSTM of eq. 2. The experiments of P16 (Palangi et al. 2016, sec. V)
    leave out both the peepholes and the forget gate, because texts are short and each starts from
    an empty cell. The parameter count in its table IV agrees: 14.4 million are 2 towers x 3
    matrices x 96 cells x 25,000 trigrams.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        cells: number of LSTM cells, the semantic vector's length. P16 has 32, 64 and 96.
        peepholes: whether the gates also read the cell state `c`.
        forget_gate: whether the forget gate `f(t)` is learned; without it, `f(t)` is 1.
        forget_bias: added to the initial bias `b_2` of the forget gate.
        peephole_initializer: initializes the peepholes `W_p1`, `W_p2` and `W_p3`.
        recurrent_initializer: initializes `W_rec1` to `W_rec4`; see `RecurrentTower`.
        bias_initializer: initializes `b_1` to `b_4`; see `RecurrentTower`.
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
            input_matrices=4 if forget_gate else 3,
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
