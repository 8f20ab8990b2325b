"""Metrics of judged titles from their definitions, one query at a time, in float64.

A ranking is a list of grades, best title first; None is a title without a judgment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from tests.reference.ranking_metrics import ndcg

MINIMUM_DIFFERENCE = 0.5


def judged(ranking: Sequence[float | None], k: int) -> float:
    """Judged@k: the fraction of the first k titles that have a judgment, of any grade.

    If the ranking has fewer than k titles, all of them count. An empty ranking has 0.
    """
    first = ranking[:k]
    return sum(grade is not None for grade in first) / len(first) if first else 0.0


def condensed(ranking: Sequence[float | None]) -> list[float]:
    """The condensed list: the ranking without the titles that have no judgment (Sakai 2007)."""
    return [grade for grade in ranking if grade is not None]


def condensed_ndcg(ranking: Sequence[float | None], k: int, missing: Sequence[float] = ()) -> float:
    """NDCG@k of the condensed list; `missing` are grades of judged titles that are not ranked."""
    return ndcg(condensed(ranking), k, missing)


def concordance(scores: Sequence[float], grades: Sequence[float]) -> float:
    """Of the pairs whose grades differ by at least 0.5, the fraction in the order of the grades.

    Pairs with equal scores count half. A score of -inf means "not ranked": below all others, and
    equal to each other. NaN without a pair.
    """
    points = []
    for (score, grade), (other_score, other_grade) in combinations(
        zip(scores, grades, strict=True), 2
    ):
        if round(abs(grade - other_grade), 6) < MINIMUM_DIFFERENCE:
            continue
        if score == other_score:
            points.append(0.5)
        else:
            points.append(float((score > other_score) == (grade > other_grade)))
    return math.fsum(points) / len(points) if points else math.nan
