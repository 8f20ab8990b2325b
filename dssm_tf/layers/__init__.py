"""Keras layers of the papers, in `keras.ops`: they run on every Keras backend.

`row_sums` is the exception: it needs TensorFlow, which it imports when it is called.

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
