"""Runs compact models (`dssm export --format compact`) with NumPy only.

May import text and common, and NumPy; no TensorFlow, Keras, Beam or other libraries.
"""

from dssm_tf.runtime.compact_ranker import CompactRanker
from dssm_tf.runtime.interleaving import Interleaved, team_draft
from dssm_tf.runtime.loading import load
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.trained_ranker import RankedTitle, TrainedRanker

__all__ = [
    "CompactRanker", "Interleaved", "MaxSimRanker", "RankedTitle", "TrainedRanker", "load",
    "team_draft",
]  # fmt: skip
