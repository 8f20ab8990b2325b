"""Makes semantic vectors that give chosen scores."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.model.text_scorer import TextVectors


def vectors_with_scores(scores) -> TextVectors:
    """Unit queries and titles whose inner products are the `scores`, `(queries, titles)`."""
    dense = scores.toarray() if sparse.issparse(scores) else np.asarray(scores)
    matrix = dense.astype(np.float32)
    return TextVectors(np.eye(len(matrix), dtype=np.float32), matrix.T)
