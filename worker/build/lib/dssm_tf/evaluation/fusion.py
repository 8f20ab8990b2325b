"""BM25 and a model in one ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]

DEPTH = 100
"""The best titles of each ranking that are joined."""

WEIGHTS = tuple(step / 20 for step in range(21))
"""Weights of BM25 that validation queries choose from."""


def fuse(words: Scores, meaning: Scores, weight: float) -> NDArray[np.float64]:
    """The weighted sum of two scores of the same titles, each scaled to [0, 1] over these titles.

    >>> fuse(np.array([0.0, 3.0, 6.0]), np.array([0.5, 0.5, 0.1]), weight=0.25).tolist()
    [0.75, 0.875, 0.25]

    Args:
        words: scores of BM25, `(titles,)`.
        meaning: scores of the model, `(titles,)`.
        weight: of BM25, from 0 to 1; the model has the rest.

    Returns:
        `(titles,)`. Sums that differ by rounding only are equal.

    Reference: Fox and Shaw 1994 (CombSUM); Bruch, Gai and Ingber 2023 for the scaling.
    """
    fused = weight * _scaled(words) + (1 - weight) * _scaled(meaning)
    rounded: NDArray[np.float64] = fused.round(12)
    return rounded


def _scaled(scores: Scores) -> NDArray[np.float64]:
    scores = scores.astype(np.float64)
    least, most = (scores.min(), scores.max()) if len(scores) else (0.0, 0.0)
    scaled: NDArray[np.float64] = (scores - least) / ((most - least) or 1.0)
    return scaled
