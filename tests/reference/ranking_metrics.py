"""Ranking metrics from their definitions, one query at a time, in float64.

`grades` are the grades of the titles in ranking order, and `missing` those of relevant titles that
were not ranked. A title is relevant when its grade is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def ranked_grades(scores: Sequence[float], grades: Sequence[float]) -> list[float]:
    """Grades in ranking order: highest score first, ties in the given order."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return [float(grades[i]) for i in order]


def dcg(grades: Sequence[float], k: int) -> float:
    """DCG@k = sum over ranks r <= k of (2^grade - 1) / log2(r + 1)."""
    return math.fsum((2.0**g - 1) / math.log2(r + 1) for r, g in enumerate(grades[:k], start=1))


def ndcg(grades: Sequence[float], k: int, missing: Sequence[float] = ()) -> float:
    """NDCG@k = DCG@k / DCG@k of the best possible order."""
    return dcg(grades, k) / dcg(sorted([*grades, *missing], reverse=True), k)


def mrr(grades: Sequence[float], k: int) -> float:
    """One over the rank of the first relevant title, 0 beyond rank k."""
    return next((1 / r for r, g in enumerate(grades[:k], start=1) if g > 0), 0.0)


def recall(grades: Sequence[float], k: int, missing: Sequence[float] = ()) -> float:
    """Fraction of the relevant titles that are in the first k ranks."""
    return np.count_nonzero(grades[:k]) / np.count_nonzero([*grades, *missing])


def precision(grades: Sequence[float], k: int) -> float:
    """Fraction of the first k ranks that have a relevant title; empty ranks count."""
    return np.count_nonzero(grades[:k]) / k


def average_precision(grades: Sequence[float], missing: Sequence[float] = ()) -> float:
    """Mean over the relevant titles of the precision at their rank; 0 for unranked titles."""
    at_relevant = [precision(grades, r) for r, g in enumerate(grades, start=1) if g > 0]
    return math.fsum(at_relevant) / np.count_nonzero([*grades, *missing])


def metric(name: str, grades: Sequence[float], missing: Sequence[float] = ()) -> float:
    """A metric by its name in tables, such as `ndcg@10` or `map`."""
    kind, _, cutoff = name.partition("@")
    if kind == "map":
        return average_precision(grades, missing)
    if kind in ("mrr", "precision"):
        return {"mrr": mrr, "precision": precision}[kind](grades, int(cutoff))
    return {"ndcg": ndcg, "recall": recall}[kind](grades, int(cutoff), missing)
