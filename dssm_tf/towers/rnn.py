"""RNN: the sentence embedding by a plain recurrent network."""

from __future__ import annotations

import keras

from dssm_tf.common.sections import defaults_of
from dssm_tf.layers import TanhCell
from dssm_tf.towers import TOWERS
from dssm_tf.towers.recurrent import RecurrentTower


@keras.saving.register_keras_serializable(package="dssm_tf")
class RNN(RecurrentTower):
    """Reads the words left to right; the hidden layer after the last is the semantic vector.

    Differs from `LSTMRNN` by having no cell state: what a word said is rewritten at every step.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        hidden: neurons, the semantic vector's length. P16 has 288.
        kwargs: initializers and `bptt_steps` of `RecurrentTower`, what `Tower` takes.

    Reference: Palangi et al. 2016, eq. 1 and fig. 1.
    """

    @defaults_of(TOWERS["rnn"].section)
    def __init__(self, vocabulary_size, hidden, **kwargs):
        super().__init__(vocabulary_size, TanhCell, hidden, 1, {}, **kwargs)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"hidden": self.units}
