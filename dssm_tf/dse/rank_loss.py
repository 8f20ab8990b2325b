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

    A triple is wrong when the irrelevant title scores higher, and half wrong when the two tie:
    the fraction is `1 - AUC` with the usual handling of ties, over the triples of all queries
    together, as the paper's test tuples are. One sort per query counts, for every relevant title,
    the irrelevant titles above it: `O(n log n)` per query, although the triples are `O(n^2)`.

    Args:
        scores: `(queries, titles)`; or a function from indices of queries to their rows, so that
            only `block` rows are in memory at once.
        relevant: true where the title answers the query, `(queries, titles)`.
        ignored: true where the title is neither, such as a training link, the same shape.
        block: queries per call if `scores` is a function.

    Returns:
        From 0, every triple in order, to 100.

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
        table = scores(rows) if callable(scores) else scores[rows]
        if np.isnan(table).any():
            raise ValueError("rank_loss received a score that is NaN; the model diverged.")
        right_titles = relevant[rows].toarray().astype(bool)
        masks = np.ones_like(right_titles)
        if ignored is not None:
            masks = ~ignored[rows].toarray().astype(bool)
        for row, right, mask in zip(table, right_titles, masks, strict=True):
            ranks = stats.rankdata(row[mask])[right[mask]]
            pairs = len(ranks) * int(mask.sum() - len(ranks))
            triples += pairs
            wrong += pairs - (ranks.sum() - len(ranks) * (len(ranks) + 1) / 2)
    if not triples:
        raise ValueError(
            "rank_loss received no triple of a query, a relevant and an irrelevant title; "
            "expected at least one query that has both."
        )
    return float(100.0 * wrong / triples)
