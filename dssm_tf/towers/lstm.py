"""LSTM-RNN: the sentence embedding by an LSTM with peepholes."""

from __future__ import annotations

import keras

from dssm_tf.common.sections import defaults_of
from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.towers import LSTMSection
from dssm_tf.towers.recurrent import RecurrentTower, described


@keras.saving.register_keras_serializable(package="dssm_tf")
class LSTMRNN(RecurrentTower):
    """Reads the words left to right; `y` after the last word is the semantic vector.

    P16 sec. V trains it without peepholes and forget gate, since a text's words are few and each
    text starts from an empty cell. The parameter counts of its table IV say the same: 14.4 million
    are 2 towers x 3 matrices x 96 cells x 25,000 trigrams.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        cells: number of LSTM cells, the semantic vector's length. P16 has 32, 64 and 96.
        peepholes: whether the gates see the cell state.
        forget_gate: whether the forget gate is learned, else 1.
        forget_bias: added to the initial bias of the forget gate.
        peephole_initializer: of `W_p`.
        kwargs: initializers and `bptt_steps` of `RecurrentTower`, what `Tower` takes.

    Reference: Palangi et al. 2016, eq. 2 and fig. 2; Palangi et al. 2014, eq. 1-6.
    """

    @defaults_of(LSTMSection)
    def __init__(
        self,
        vocabulary_size,
        cells,
        peepholes,
        forget_gate,
        forget_bias,
        peephole_initializer,
        **kwargs,
    ):
        options = {
            "peepholes": peepholes,
            "forget_gate": forget_gate,
            "forget_bias": forget_bias,
            "peephole_initializer": described(peephole_initializer),
        }
        blocks = 4 if forget_gate else 3
        super().__init__(vocabulary_size, PeepholeLSTMCell, cells, blocks, options, **kwargs)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"cells": self.units}
