"""Runs compact models (`dssm export --format compact`) with NumPy only.

May import text and common, and NumPy; no TensorFlow, Keras, Beam or other libraries.
"""

from dssm_tf.runtime.compact_ranker import CompactRanker
from dssm_tf.runtime.vector_ranker import RankedTitle

__all__ = ["CompactRanker", "RankedTitle"]
