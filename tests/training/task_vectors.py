"""Makes semantic vectors that give chosen scores."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.model.text_scorer import VectorScores


def vectors_with_scores(scores) -> VectorScores:
    """Unit queries and titles whose inner products are the `scores`, `(queries, titles)`."""
    dense = scores.toarray() if sparse.issparse(scores) else np.asarray(scores)
    matrix = dense.astype(np.float32)
    return VectorScores(np.eye(len(matrix), dtype=np.float32), matrix.T)
