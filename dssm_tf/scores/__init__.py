"""The scores: how a query is compared with titles. One class per file.

May import layers and common.
"""

from dssm_tf.scores.cosine import Cosine
from dssm_tf.scores.maxsim import MaxSim
from dssm_tf.scores.score import Score

__all__ = ["Cosine", "MaxSim", "Score"]
