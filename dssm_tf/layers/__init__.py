"""Keras layers of the papers, in `keras.ops` only: they run on every Keras backend."""

from dssm_tf.layers.peephole_lstm import PeepholeLSTM, PeepholeLSTMCell
from dssm_tf.layers.word_hashing import WordHashing

__all__ = ["PeepholeLSTM", "PeepholeLSTMCell", "WordHashing"]
