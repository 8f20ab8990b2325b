"""The LSTM-RNN as P16 trains it: without peepholes and forget gate."""

from __future__ import annotations

import keras

from dssm_tf.towers.lstm import LSTMRNN


@keras.saving.register_keras_serializable(package="dssm_tf")
class PlainLSTMRNN(LSTMRNN):
    """An `LSTMRNN` without peepholes and forget gate: three matrices in place of four.

    P16 sec. V leaves both out of its experiments, since a text's words are few and each text
    starts from an empty cell. The parameter counts of its table IV say the same: 14.4 million are
    2 towers x 3 matrices x 96 cells x 25,000 trigrams.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        cells: number of LSTM cells, the semantic vector's length.
        recurrent_initializer: of `W_rec`.
        bptt_steps: in training, the gradient ends this many words before the last; None: at the
            first word.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's own.

    Reference: Palangi et al. 2016, sec. V and table IV.
    """

    def __init__(
        self,
        vocabulary_size,
        cells=96,
        recurrent_initializer="orthogonal",
        bptt_steps=None,
        **kwargs,
    ):
        super().__init__(
            vocabulary_size,
            cells,
            peepholes=False,
            forget_gate=False,
            recurrent_initializer=recurrent_initializer,
            bptt_steps=bptt_steps,
            **kwargs,
        )

    def get_config(self):
        """Constructor arguments, for `keras.saving`: what distinguishes the class is left out."""
        config = super().get_config()
        for option in ("peepholes", "forget_gate", "forget_bias"):
            del config[option]
        return config
