"""Keras layers of the papers, in `keras.ops` only: they run on every Keras backend.

May import no other room.
"""

from dssm_tf.layers.peephole_lstm import PeepholeLSTM, PeepholeLSTMCell
from dssm_tf.layers.tanh_rnn import TanhCell, TanhRNN
from dssm_tf.layers.word_hashing import WordHashing
from dssm_tf.layers.word_ngram_convolution import WordNgramConvolution

__all__ = [
    "PeepholeLSTM",
    "PeepholeLSTMCell",
    "TanhCell",
    "TanhRNN",
    "WordHashing",
    "WordNgramConvolution",
]
