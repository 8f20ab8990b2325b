"""Makes semantic vectors that give chosen scores."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.training.validation import TaskVectors


def vectors_with_scores(scores) -> TaskVectors:
    """Unit queries and titles whose inner products are the `scores`, `(queries, titles)`."""
    dense = scores.toarray() if sparse.issparse(scores) else np.asarray(scores)
    matrix = dense.astype(np.float32)
    return TaskVectors(np.eye(len(matrix), dtype=np.float32), matrix.T)
