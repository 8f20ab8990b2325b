"""Rank loss: the fraction of (query, relevant, irrelevant) triples that scores order wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.floating[Any]]


def rank_loss(
    scores: Floats | Callable[[NDArray[np.int64]], Floats],
    relevant: sparse.csr_matrix,
    ignored: sparse.csr_matrix | None = None,
    *,
    block: int = 512,
) -> float:
    """Rank loss in percent, exact, without enumerating the triples.

    A triple is wrong if the irrelevant title scores higher, and half wrong if the two tie. Like the
    paper's test tuples, the triples of all queries are counted together. For one query, the
    fraction is `1 - AUC`. Sorting the scores of a query counts, for every relevant title, the
    irrelevant titles above it, in `O(n log n)` instead of `O(n^2)` time.

    Args:
        scores: `(queries, titles)`; or a function that returns the rows of query indices, so
            that only `block` rows are in memory at once.
        relevant: true where the title is relevant to the query, `(queries, titles)`.
        ignored: true where the title counts neither as relevant nor as irrelevant, such as a
            training link, `(queries, titles)`.
        block: queries per call if `scores` is a function.

    Returns:
        Percent: 0 if every triple is ordered correctly, 100 if none is.

    Raises:
        ValueError: a score is NaN, or there is no triple to count.

    Reference: Wu et al. 2014, sec. 4; Hanley and McNeil 1982 for the sum of ranks.
    """
    from scipy import stats  # takes a third of a second to import

    relevant = relevant.tocsr()
    queries = np.flatnonzero(np.diff(relevant.indptr))
    wrong, triples = 0.0, 0
    for start in range(0, len(queries), block):
        rows = queries[start : start + block]
        block_scores = scores(rows) if callable(scores) else scores[rows]
        if np.isnan(block_scores).any():
            raise ValueError("rank_loss received a score that is NaN; the model diverged.")
        are_relevant = relevant[rows].toarray().astype(bool)
        are_counted = np.ones_like(are_relevant)
        if ignored is not None:
            are_counted = ~ignored[rows].toarray().astype(bool)
        for row, is_relevant, is_counted in zip(
            block_scores, are_relevant, are_counted, strict=True
        ):
            ranks = stats.rankdata(row[is_counted])[is_relevant[is_counted]]
            pairs = len(ranks) * int(is_counted.sum() - len(ranks))
            triples += pairs
            wrong += pairs - (ranks.sum() - len(ranks) * (len(ranks) + 1) / 2)
    if not triples:
        raise ValueError(
            "rank_loss received no triple of a query, a relevant and an irrelevant title; "
            "expected at least one query that has both."
        )
    return float(100.0 * wrong / triples)
