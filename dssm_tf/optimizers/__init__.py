"""The optimizer of the LSTM-RNN paper; all others are Keras's. May import common."""

from dssm_tf.optimizers.nesterov import ScheduledNesterov

__all__ = ["ScheduledNesterov"]
