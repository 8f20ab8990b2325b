"""From scores to ranks. Ties are broken by column order.

In every task, columns are sorted by `tie_key`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.text.stable_hash import fingerprint64

Scores = NDArray[np.floating[Any]]


def tie_key(text: str) -> tuple[int, str]:
    """Sort key of titles and queries, which breaks ties: a hash of the text, then the text.

    It depends neither on the order of rows nor on ids. An aggregated log often lists the most
    clicked titles first, and ids follow the log. With such an order, ties would favor the titles
    that clicks judge relevant.
    """
    return fingerprint64(text), text


def rank_of(scores: Scores, index: int) -> Any:
    """The rank of a title, from 1: one plus the number of titles above it.

    Of titles with equal scores, earlier ones rank higher.

    Args:
        scores: `(titles, ...)`.
        index: index of the title.

    Returns:
        `(...)`; a number if `scores` is `(titles,)`.
    """
    score = scores[index]
    return 1 + (scores > score).sum(axis=0) + (scores[:index] == score).sum(axis=0)


def ranks_of(
    scores: Scores, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Ranks of the given cells in their rows; ties in column order.

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
    """The columns of one query's best titles, best first; ties in column order.

    Args:
        scores: `(titles,)`, without NaN; -inf means "not ranked".
        depth: maximum number of titles.
    """
    candidates = np.arange(len(scores))
    if depth < len(scores):
        # Most titles have no word of the query and tie at the lowest score. np.partition takes
        # twenty times as long for such scores as for different ones.
        threshold = scores.min()
        others = scores[scores > threshold]
        if depth < len(others):
            threshold = np.partition(others, len(others) - depth)[len(others) - depth]
        candidates = np.flatnonzero(scores > threshold)
        ties = np.flatnonzero(scores == threshold)[: depth - len(candidates)]
        candidates = np.sort(np.concatenate([candidates, ties]))
    best = candidates[np.argsort(-scores[candidates], kind="stable")][:depth]
    return best[~np.isneginf(scores[best])]
