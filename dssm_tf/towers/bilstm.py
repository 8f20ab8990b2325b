"""Bidirectional LSTM-RNN: one LSTM reads from the left, another from the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import keras

from dssm_tf.towers.lstm import LSTMRNN


@keras.saving.register_keras_serializable(package="dssm_tf")
class BidirectionalLSTMRNN(LSTMRNN):
    """Two LSTMs with their own matrices; the vector is the concatenation of their last outputs.

    The first half of the vector is `y` at the last word of the text. The second half is `y` at the
    first word, where the LSTM that reads right to left ends. The first matrix has the columns of
    both directions, so that each word is hashed once. The arguments are those of `LSTMRNN`; `cells`
    is the number per direction. P16 has 96.

    Reference: Palangi et al. 2016, sec. V, tables I, II and IV.
    """

    directions: ClassVar[Mapping[str, bool]] = {"left_to_right": False, "right_to_left": True}
