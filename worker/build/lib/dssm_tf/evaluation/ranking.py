"""From scores to ranks: ties in column order, no full sort where a count will do.

Columns stand in the order of `tie_key`, in every task that is ranked and measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssm_tf.text.fingerprint import fingerprint64

Scores = NDArray[np.floating[Any]]

# Comparisons held at once while counting ranks: 16 MiB of booleans.
_CELLS = 1 << 24


def tie_key(text: str) -> tuple[int, str]:
    """What texts are sorted by so that ties are broken: a hash of the text, then the text.

    Neither the order of rows nor ids have a part in it. An aggregated log has the titles clicked
    most first and ids follow the log: by those, ties would go to the titles that clicks judge
    to be right.
    """
    return fingerprint64(text), text


class Ranking(NamedTuple):
    """The top of one query's ranking: places in `RankingTask.titles`, and scores."""

    columns: NDArray[np.int32]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class RelevantRanks:
    """Where the relevant titles of each query came in one system's ranking.

    Every metric here follows from these alone, so a ranking of a million
    titles takes no more memory than its judgments.

    Attributes:
        queries: number of queries, those without a relevant title included.
        query: `(relevant,)`, the row of the query, not decreasing.
        rank: `(relevant,)`, from 1; 0 for a title the system did not rank.
        grade: `(relevant,)`, above 0.
    """

    queries: int
    query: NDArray[np.int64]
    rank: NDArray[np.int64]
    grade: NDArray[np.float64]

    @classmethod
    def from_lists(cls, ranks: Sequence[ArrayLike], grades: Sequence[ArrayLike]) -> RelevantRanks:
        """Joins the ranks and grades of the relevant titles of each query."""
        lengths = [np.size(row) for row in ranks]

        def joined(rows: Sequence[ArrayLike], dtype: type) -> NDArray[Any]:
            return np.concatenate([np.empty(0, dtype), *(np.asarray(row, dtype) for row in rows)])

        return cls(
            queries=len(ranks),
            query=np.repeat(np.arange(len(ranks)), lengths),
            rank=joined(ranks, np.int64),
            grade=joined(grades, np.float64),
        )

    @property
    def judged(self) -> NDArray[np.bool_]:
        """`(queries,)`, whether a query has a relevant title; the others are left out of means."""
        return np.bincount(self.query, minlength=self.queries) > 0


def ranks_of(
    scores: Scores, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ranks chosen cells within their rows, ties in column order.

    Args:
        scores: `(queries, titles)`.
        rows: `(cells,)`.
        columns: `(cells,)`.

    Returns:
        `(cells,)`, from 1; 0 where the score is -inf.

    Raises:
        ValueError: a score is NaN, which has no rank.
    """
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} of {scores.size} scores are NaN.")
    ranks = np.zeros(len(rows), dtype=np.int64)
    positions = np.arange(scores.shape[1])
    step = max(1, _CELLS // max(1, scores.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        others = scores[rows[part]]
        own = scores[rows[part], columns[part]][:, None]
        earlier = positions < columns[part][:, None]
        ranks[part] = 1 + (others > own).sum(axis=1) + ((others == own) & earlier).sum(axis=1)
    ranks[np.isneginf(scores[rows, columns])] = 0
    return ranks


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
