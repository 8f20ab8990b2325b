"""Bidirectional LSTM-RNN: one LSTM reads from the left, another from the right."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.layers import PeepholeLSTM
from dssm_tf.towers.tower import Tower, described


@keras.saving.register_keras_serializable(package="dssm_tf")
class BidirectionalLSTMRNN(Tower):
    """Two LSTMs with their own matrices; their last outputs, side by side, are the vector.

    The first half of the vector is `y` at the last word of the text, the second half `y` at the
    first word, where the LSTM that reads right to left ends. Each direction has its own hashed
    words: one matrix holds both side by side, so that a word is hashed once for both.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        cells: cells of each direction; the semantic vector has twice as many entries. P16 has 96.
        peepholes: whether the gates see the cell state.
        forget_gate: whether the forget gate is learned, else 1.
        forget_bias: initial bias of the forget gate.
        recurrent_initializer: of `W_rec`; the paper says small random numbers.
        bptt_steps: in training, the gradient of each direction ends this many words before the
            last one it reads; None: at the first it reads.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's own.

    Reference: Palangi et al. 2016, sec. V, tables I, II and IV.
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
            raise ValueError(f"BidirectionalLSTMRNN received cells={cells}; expected at least 1.")
        gates = 4 if forget_gate else 3
        super().__init__(vocabulary_size, 2 * gates * cells, **kwargs)
        self.cells = cells
        self.cell_options = {
            "peepholes": peepholes,
            "forget_gate": forget_gate,
            "forget_bias": forget_bias,
            "recurrent_initializer": described(recurrent_initializer),
        }
        self.bptt_steps = bptt_steps
        self.left_to_right, self.right_to_left = (
            PeepholeLSTM(
                cells,
                go_backwards=backwards,
                cell_options=self.cell_options,
                bptt_steps=bptt_steps,
                name=name,
                dtype=self.dtype_policy,
            )
            for name, backwards in (("left_to_right", False), ("right_to_left", True))
        )

    def build(self, *_):
        """Builds both recurrences."""
        for recurrence in (self.left_to_right, self.right_to_left):
            recurrence.build((None, None, self.hashing.units // 2))
        super().build()

    def encode(self, words, present):
        """Both last outputs: `(texts, 2 * cells)`."""
        forward, backward = ops.split(words, 2, axis=-1)
        return ops.concatenate(
            [
                self.left_to_right(forward, mask=present),
                self.right_to_left(backward, mask=present),
            ],
            axis=-1,
        )

    @property
    def dimension(self):
        """Length of a semantic vector."""
        return 2 * self.cells

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        own = {"cells": self.cells, "bptt_steps": self.bptt_steps}
        return super().get_config() | own | self.cell_options
