"""From texts to vectors to search: `dssm embed` and `dssm search`, and what they are made of.

Nothing here is loaded with TensorFlow before it is called.
"""

from __future__ import annotations

from dssm_tf.retrieval.embed import embed_command
from dssm_tf.retrieval.fusion import linear_fusion, reciprocal_rank_fusion
from dssm_tf.retrieval.index import ExactIndex, FaissIndex, VectorIndex
from dssm_tf.retrieval.search import search_command
from dssm_tf.retrieval.searcher import Searcher

__all__ = [
    "ExactIndex",
    "FaissIndex",
    "Searcher",
    "VectorIndex",
    "embed_command",
    "linear_fusion",
    "reciprocal_rank_fusion",
    "search_command",
]
