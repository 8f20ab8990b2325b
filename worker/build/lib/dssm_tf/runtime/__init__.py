"""A trained model with NumPy alone, from what `dssm export --format compact` wrote.

May import text and common; nothing of TensorFlow, Keras or Beam, and no other package than NumPy.
"""

from dssm_tf.runtime.ranker import Ranker
from dssm_tf.runtime.vector_ranker import RankedTitle

__all__ = ["RankedTitle", "Ranker"]
