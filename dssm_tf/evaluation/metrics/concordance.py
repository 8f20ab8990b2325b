"""Concordance: the fraction of pairs of judged titles that are in the order of their grades."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

GRADE_DIFFERENCE = 0.5
"""Pairs of titles count if their grades differ by at least this much."""

_ROUNDING = 1e-9  # in floats, 0.7 - 0.2 is below 0.5


def concordance(scores: NDArray[np.float64], grades: NDArray[np.float64]) -> float:
    """`(pairs in the right order + pairs with equal scores / 2) / pairs`, for one query.

    A pair counts if its grades differ by at least `GRADE_DIFFERENCE`. It is in the right order if
    the title with the higher grade has the higher score. Scores at random have 0.5 on average.

    >>> concordance(np.array([3.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.0]))
    0.8333333333333334

    Args:
        scores: scores of the judged titles, `(titles,)`; -inf for a title that is not ranked.
        grades: their grades, `(titles,)`.

    Returns:
        From 0 to 1; NaN if no pair counts.

    Reference: with two grades this is the area under the ROC curve (Hanley and McNeil 1982).
    """
    # Ranks of scores, because the difference of two -inf would be NaN.
    rank = np.unique(scores, return_inverse=True)[1].reshape(-1)
    counted = grades[:, None] - grades[None, :] >= GRADE_DIFFERENCE - _ROUNDING
    order = np.sign(rank[:, None] - rank[None, :])[counted]
    return float((1 + order).mean() / 2) if order.size else np.nan


def concordance_per_query(
    run: pl.DataFrame, judged: pl.DataFrame, query_count: int
) -> NDArray[np.float64]:
    """Computes `concordance` for every query.

    Args:
        run: `query`, `title` and `score`. Judged titles that it lacks count as below all others,
            and as equal to each other.
        judged: `query`, `title` and `grade` of all judged titles.
        query_count: number of queries.

    Returns:
        `(queries,)`, NaN for queries without a pair that counts.
    """
    values = np.full(query_count, np.nan)
    scores = judged.join(run.select("query", "title", "score"), on=["query", "title"], how="left")
    scores = scores.with_columns(pl.col("score").cast(pl.Float64).fill_null(-np.inf))
    for (query,), titles in scores.group_by("query"):
        values[int(str(query))] = concordance(
            titles["score"].to_numpy(), titles["grade"].to_numpy()
        )
    return values
