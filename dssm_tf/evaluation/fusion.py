"""Fusion of two scores of the same titles into one ranking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.ranking import Scores

DEPTH = 100
"""Number of best titles of BM25, and of the model, that a hybrid search fuses."""

WEIGHTS = tuple(step / 20 for step in range(21))
"""Candidate weights of BM25; validation queries choose one."""


def fuse(lexical: Scores, semantic: Scores, weight: float) -> NDArray[np.float64]:
    """The weighted sum of two scores of the same titles, each scaled by `min_max_scaled`.

    >>> fuse(np.array([0.0, 3.0, 6.0]), np.array([0.5, 0.5, 0.1]), weight=0.25).tolist()
    [0.75, 0.875, 0.25]

    Args:
        lexical: scores of BM25, `(titles,)`.
        semantic: scores of the model, `(titles,)`.
        weight: weight of BM25, from 0 to 1; the model's is `1 - weight`.

    Returns:
        `(titles,)`. Sums that differ only by rounding are equal.

    Reference: Fox and Shaw 1994 (CombSUM); Bruch, Gai and Ingber 2023 for the scaling.
    """
    fused = weight * min_max_scaled(lexical) + (1 - weight) * min_max_scaled(semantic)
    rounded: NDArray[np.float64] = fused.round(12)
    return rounded


def min_max_scaled(scores: Scores) -> NDArray[np.float64]:
    """Scales one query's scores `(titles, ...)` to 0 to 1 over the titles; 0 if all are equal."""
    scores = scores.astype(np.float64)
    low = scores.min(axis=0, initial=np.inf)
    spread = scores.max(axis=0, initial=-np.inf) - low
    result: NDArray[np.float64] = (scores - low) / np.where(spread > 0, spread, 1.0)
    return result
