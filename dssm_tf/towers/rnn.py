"""RNN: the sentence embedding by a plain recurrent network."""

from __future__ import annotations

import keras

from dssm_tf.layers import TanhRNN
from dssm_tf.towers.tower import Tower, described


@keras.saving.register_keras_serializable(package="dssm_tf")
class RNN(Tower):
    """Reads the words left to right; the hidden layer after the last is the semantic vector.

    Differs from `LSTMRNN` by having no cell state: what a word said is rewritten at every step.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        hidden: neurons, the semantic vector's length. P16 has 288.
        recurrent_initializer: of `W_rec`; the paper says small random numbers.
        bptt_steps: in training, the gradient ends this many words before the last; None: at the
            first word.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's own.

    Reference: Palangi et al. 2016, eq. 1 and fig. 1.
    """

    def __init__(
        self,
        vocabulary_size,
        hidden=288,
        recurrent_initializer="orthogonal",
        bptt_steps=None,
        **kwargs,
    ):
        if hidden < 1:
            raise ValueError(f"RNN received hidden={hidden}; expected at least 1.")
        super().__init__(vocabulary_size, hidden, **kwargs)
        self.hidden = hidden
        self.bptt_steps = bptt_steps
        self.recurrent_initializer = described(recurrent_initializer)
        self.recurrence = TanhRNN(
            hidden,
            recurrent_initializer=self.recurrent_initializer,
            bptt_steps=bptt_steps,
            name="recurrence",
            dtype=self.dtype_policy,
        )

    def build(self, *_):
        """Builds the recurrence on `(texts, max_words, hidden)`."""
        self.recurrence.build((None, None, self.hidden))
        super().build()

    def encode(self, words, present):
        """`y` at the last word of each text: `(texts, hidden)`."""
        return self.recurrence(words, mask=present)

    @property
    def dimension(self):
        """Length of a semantic vector."""
        return self.hidden

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "hidden": self.hidden,
            "recurrent_initializer": self.recurrent_initializer,
            "bptt_steps": self.bptt_steps,
        }
