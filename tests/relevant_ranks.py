"""Ranks of the relevant titles in a score matrix."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from dssm_tf.evaluation.ranking import Scores, ranks_of


def relevant_ranks(scores: Scores, grades: ArrayLike) -> tuple[pl.DataFrame, int]:
    """Ranks the relevant titles of every row of a score matrix.

    A rank is one plus the number of titles that score higher, plus the equal
    ones in earlier columns: put the columns in the order of `tie_key`. A score
    of -inf means "not ranked".

    Args:
        scores: `(queries, titles)`.
        grades: `(queries, titles)`, at least 0; above 0 is relevant.

    Returns:
        One row per relevant title with its query, rank and grade; and the number of queries.

    Raises:
        ValueError: a score is NaN, which has no rank.
    """
    scores, grades = np.asarray(scores), np.asarray(grades, dtype=np.float64)
    query, column = np.nonzero(grades > 0)
    ranks = {
        "query": query,
        "rank": ranks_of(scores, query, column),
        "grade": grades[query, column],
    }
    return pl.DataFrame(ranks), len(scores)
