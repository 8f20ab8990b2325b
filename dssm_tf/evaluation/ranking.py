"""From scores to ranks: ties in column order, no full sort where a count will do.

Columns stand in the order of `tie_key`, in every task that is ranked and measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.text.fingerprint import fingerprint64

Scores = NDArray[np.floating[Any]]


def tie_key(text: str) -> tuple[int, str]:
    """What texts are sorted by so that ties are broken: a hash of the text, then the text.

    Neither the order of rows nor ids have a part in it. An aggregated log has the titles clicked
    most first and ids follow the log: by those, ties would go to the titles that clicks judge
    to be right.
    """
    return fingerprint64(text), text


def rank_of(scores: Scores, place: int) -> Any:
    """The rank of a title, from 1: one more than those above it, ties in the order given.

    Args:
        scores: `(titles, ...)`.
        place: of the title.

    Returns:
        `(...)`, a number where there is one score a title.
    """
    own = scores[place]
    return 1 + (scores > own).sum(axis=0) + (scores[:place] == own).sum(axis=0)


def ranks_of(
    scores: Scores, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Ranks of chosen cells in their rows, ties in column order.

    Args:
        scores: `(queries, titles)`.
        rows: `(cells,)`.
        columns: `(cells,)`.

    Returns:
        `(cells,)`, from 1; NaN where the score is -inf.

    Raises:
        ValueError: a score is NaN, which has no rank.
    """
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} of {scores.size} scores are NaN.")
    cells = zip(rows, columns, strict=True)
    ranks = np.array([rank_of(scores[row], column) for row, column in cells], np.float64)
    return np.where(np.isneginf(scores[rows, columns]), np.nan, ranks)


def top_columns(scores: Scores, depth: int) -> NDArray[np.int64]:
    """The columns of the best titles of one query, ties in column order.

    Args:
        scores: `(titles,)`, without NaN; -inf means "not ranked".
        depth: how many at most.
    """
    if depth < len(scores):
        least = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    best = candidates[np.argsort(-scores[candidates], kind="stable")][:depth]
    return best[~np.isneginf(scores[best])]
