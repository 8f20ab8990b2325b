"""Keras layers of the papers, which run on every Keras backend: `keras.ops` only.

`row_sums` is an option for TensorFlow, which is imported only if it is used.

May import no other package.
"""

from dssm_tf.layers.peephole_lstm_cell import PeepholeLSTMCell
from dssm_tf.layers.tanh_cell import TanhCell
from dssm_tf.layers.word_hashing import WordHashing
from dssm_tf.layers.word_ngram_convolution import WordNgramConvolution
from dssm_tf.layers.word_recurrence import WordRecurrence

__all__ = [
    "PeepholeLSTMCell",
    "TanhCell",
    "WordHashing",
    "WordNgramConvolution",
    "WordRecurrence",
]
