"""LSTM-RNN: the sentence embedding by an LSTM with peepholes."""

from __future__ import annotations

import keras

from dssm_tf.layers import PeepholeLSTM
from dssm_tf.towers.tower import Tower, described


@keras.saving.register_keras_serializable(package="dssm_tf")
class LSTMRNN(Tower):
    """Reads the words left to right; `y` after the last word is the semantic vector.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        cells: number of LSTM cells, the semantic vector's length. P16 has 32, 64 and 96.
        peepholes: whether the gates see the cell state.
        forget_gate: whether the forget gate is learned, else 1.
        forget_bias: initial bias of the forget gate.
        recurrent_initializer: of `W_rec`; the paper says small random numbers.
        bptt_steps: in training, the gradient ends this many words before the last (T of P16
            algorithm 1); None: at the first word.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's own.

    Reference: Palangi et al. 2016, eq. 2 and fig. 2; Palangi et al. 2014, eq. 1-6.
    """

    def __init__(
        self,
        vocabulary_size,
        cells=96,
        peepholes=True,
        forget_gate=True,
        forget_bias=1.0,
        recurrent_initializer="orthogonal",
        bptt_steps=None,
        **kwargs,
    ):
        if cells < 1:
            raise ValueError(f"LSTMRNN received cells={cells}; expected at least 1.")
        gates = 4 if forget_gate else 3
        super().__init__(vocabulary_size, gates * cells, **kwargs)
        self.cells = cells
        self.cell_options = {
            "peepholes": peepholes,
            "forget_gate": forget_gate,
            "forget_bias": forget_bias,
            "recurrent_initializer": described(recurrent_initializer),
        }
        self.bptt_steps = bptt_steps
        self.recurrence = PeepholeLSTM(
            cells,
            cell_options=self.cell_options,
            bptt_steps=bptt_steps,
            name="recurrence",
            dtype=self.dtype_policy,
        )

    def build(self, *_):
        """Builds the recurrence on `(texts, max_words, 4 * cells)`, 3 without forget gate."""
        self.recurrence.build((None, None, self.hashing.units))
        super().build()

    def encode(self, words, present):
        """`y` at the last word of each text: `(texts, cells)`."""
        return self.recurrence(words, mask=present)

    @property
    def dimension(self):
        """Length of a semantic vector."""
        return self.cells

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        own = {"cells": self.cells, "bptt_steps": self.bptt_steps}
        return super().get_config() | own | self.cell_options
