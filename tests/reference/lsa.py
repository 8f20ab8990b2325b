"""Latent semantic analysis by the full decomposition, in float64.

`C = U S V'` is the matrix of words by titles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cosines(left: Array, right: Array) -> Array:
    """Cosines of every column of one matrix with every column of the other."""
    products = left.T @ right
    return products / np.outer(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))


def shen(corpus: Array, k: int, queries: Array, titles: Array) -> Array:
    """Shen et al. 2014, sec. 2.2: a text D has the concept vector `A' D` with `A = U_k S_k^-1`."""
    left, values, _ = np.linalg.svd(corpus, full_matrices=False)
    projection = left[:, :k] @ np.linalg.inv(np.diag(values[:k]))
    return cosines(projection.T @ queries, projection.T @ titles)


def deerwester(corpus: Array, k: int) -> Array:
    """Titles of the corpus compared by the columns of the truncated matrix `U_k S_k V_k'`."""
    left, values, right = np.linalg.svd(corpus, full_matrices=False)
    truncated = left[:, :k] @ np.diag(values[:k]) @ right[:k]
    return cosines(truncated, truncated)
