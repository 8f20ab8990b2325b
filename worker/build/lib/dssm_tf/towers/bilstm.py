"""Bidirectional LSTM-RNN: one LSTM reads from the left, another from the right."""

from __future__ import annotations

from typing import ClassVar

import keras

from dssm_tf.towers.lstm import LSTMRNN


@keras.saving.register_keras_serializable(package="dssm_tf")
class BidirectionalLSTMRNN(LSTMRNN):
    """Two LSTMs with their own matrices; their last outputs, side by side, are the vector.

    The first half of the vector is `y` at the last word of the text, the second half `y` at the
    first word, where the LSTM that reads right to left ends. Each direction has its own hashed
    words: one matrix holds both side by side, so that a word is hashed once for both. The
    arguments are those of `LSTMRNN`, `cells` those of each direction; P16 has 96.

    Reference: Palangi et al. 2016, sec. V, tables I, II and IV.
    """

    directions: ClassVar = {"left_to_right": False, "right_to_left": True}
