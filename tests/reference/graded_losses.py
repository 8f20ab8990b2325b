"""Losses of graded lists from their papers, one query at a time, in float64."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(values: Array) -> Array:
    """Softmax over one query's titles."""
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def listwise_softmax(cosines: Array, grades: Array, gamma: float) -> float:
    """Bruch et al. 2019: cross-entropy of the scores' softmax under the normalized gains.

    The gains are those of NDCG.
    """
    gains = 2.0**grades - 1
    if not gains.sum():
        return 0.0
    probabilities = softmax(gamma * cosines)
    return -sum(g / gains.sum() * np.log(p) for g, p in zip(gains, probabilities, strict=True))


def kl(cosines: Array, teacher: Array, gamma: float, temperature: float) -> float:
    """Hinton et al. 2015: cross-entropy with soft targets, minus the entropy of the targets."""
    targets, probabilities = softmax(teacher / temperature), softmax(gamma * cosines)
    return sum(q * np.log(q / p) for q, p in zip(targets, probabilities, strict=True))


def margin_mse(cosines: Array, teacher: Array, gamma: float) -> float:
    """Hofstätter et al. 2020, for all pairs of a list instead of one pair per query."""
    errors = [
        (gamma * (cosines[i] - cosines[j]) - (teacher[i] - teacher[j])) ** 2
        for i, j in combinations(range(len(cosines)), 2)
    ]
    return float(np.mean(errors)) if errors else 0.0
