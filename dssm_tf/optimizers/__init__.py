"""The optimizer of the LSTM-RNN paper, and Adam in less memory; all others are Keras's.

May import common.
"""

from dssm_tf.optimizers.adam import Adam
from dssm_tf.optimizers.nesterov import ScheduledNesterov

__all__ = ["Adam", "ScheduledNesterov"]
