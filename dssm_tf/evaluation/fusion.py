"""Several rankings of the same titles in one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]

DEPTH = 100
"""The best titles of BM25 and of a model that a search joins."""

WEIGHTS = tuple(step / 20 for step in range(21))
"""Weights of BM25 that validation queries choose from."""


def fuse(words: Scores, meaning: Scores, weight: float) -> NDArray[np.float64]:
    """The weighted sum of two scores of the same titles, see `scaled`.

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
    fused = weight * scaled(words) + (1 - weight) * scaled(meaning)
    rounded: NDArray[np.float64] = fused.round(12)
    return rounded


def scaled(scores: Scores) -> NDArray[np.float64]:
    """Scores of one query `(titles, ...)`, from 0 to 1 over the titles; 0 where all are equal."""
    scores = scores.astype(np.float64)
    low = scores.min(axis=0, initial=np.inf)
    spread = scores.max(axis=0, initial=-np.inf) - low
    result: NDArray[np.float64] = (scores - low) / np.where(spread > 0, spread, 1.0)
    return result
