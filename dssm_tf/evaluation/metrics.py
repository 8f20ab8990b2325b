"""NDCG, reciprocal rank, recall, precision and average precision in NumPy.

The same numbers as `tf_ranking`, without TensorFlow: what training uses for its
validation NDCG. The gain is `2^grade - 1`, the discount `log2(rank + 1)`; a
title is relevant when its grade is above 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.ranking import RelevantRanks

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "recall@10", "map")
"""What an evaluation reports, in the order of its table."""

Values = NDArray[np.float64]


def metric_label(metric: str) -> str:
    """How tables head a metric's column: `ndcg@10` as `NDCG@10`.

    >>> [metric_label(name) for name in ("ndcg@10", "recall@10", "map")]
    ['NDCG@10', 'Recall@10', 'MAP']
    """
    kind, at, cutoff = metric.partition("@")
    return (kind.upper() if kind in ("ndcg", "mrr", "map") else kind.capitalize()) + at + cutoff


def parse_metric(name: str) -> tuple[str, int | None]:
    """Splits a metric's name.

    >>> parse_metric("ndcg@10"), parse_metric("map")
    (('ndcg', 10), ('map', None))

    Raises:
        ValueError: there is no such metric.
    """
    kind, _, cutoff = name.partition("@")
    if name == "map":
        return "map", None
    if kind in _WITH_CUTOFF and cutoff.isdecimal() and int(cutoff) > 0:
        return kind, int(cutoff)
    raise ValueError(
        f"metric {name!r}; expected 'map', or one of {', '.join(_WITH_CUTOFF)} "
        "with a cut-off, as in 'ndcg@10'."
    )


def per_query(ranks: RelevantRanks, names: Sequence[str] = METRICS) -> dict[str, Values]:
    """Computes metrics for every query.

    Args:
        ranks: the ranks and grades of the relevant titles.
        names: see `parse_metric`.

    Returns:
        `(queries,)` float64 a metric, NaN for queries without a relevant title.
    """
    values = {}
    for name in names:
        kind, cutoff = parse_metric(name)
        row = _average_precision(ranks) if cutoff is None else _WITH_CUTOFF[kind](ranks, cutoff)
        values[name] = np.where(ranks.judged, row, np.nan)
    return values


def _sum(ranks: RelevantRanks, weights: Values) -> Values:
    """Sums over the relevant titles of each query."""
    sums = np.bincount(ranks.query, weights=weights, minlength=ranks.queries)
    return sums.astype(np.float64)


def _relevant(ranks: RelevantRanks) -> NDArray[np.int64]:
    """How many relevant titles each query has, at least 1 so that it can divide."""
    counts: NDArray[np.int64] = np.bincount(ranks.query, minlength=ranks.queries)
    return counts.clip(min=1)


def _within(ranks: RelevantRanks, k: int) -> NDArray[np.bool_]:
    return (ranks.rank >= 1) & (ranks.rank <= k)


def _places(ranks: RelevantRanks, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """From 1, the place of each entry of `order` among those of its query."""
    counts = np.bincount(ranks.query, minlength=ranks.queries)
    starts = np.cumsum(counts) - counts
    return np.arange(len(order)) - starts[ranks.query[order]] + 1


def _ndcg(ranks: RelevantRanks, k: int) -> Values:
    gain = np.exp2(ranks.grade) - 1
    # Where the rank is 0, log2(2) stands in; the gain does not count there.
    discount = np.log2(np.maximum(ranks.rank, 1) + 1.0)
    reached = _sum(ranks, np.where(_within(ranks, k), gain / discount, 0))
    best_first = np.lexsort((-ranks.grade, ranks.query))
    place = _places(ranks, best_first)
    ideal_terms = np.zeros(len(gain))
    ideal_terms[best_first] = np.where(place <= k, gain[best_first] / np.log2(place + 1.0), 0)
    ideal = _sum(ranks, ideal_terms)
    return reached / np.where(ideal > 0, ideal, 1)


def _reciprocal_rank(ranks: RelevantRanks, k: int) -> Values:
    best = np.zeros(ranks.queries)
    within = _within(ranks, k)
    np.maximum.at(best, ranks.query[within], 1 / ranks.rank[within])
    return best


def _recall(ranks: RelevantRanks, k: int) -> Values:
    return np.divide(_sum(ranks, _within(ranks, k).astype(float)), _relevant(ranks))


def _precision(ranks: RelevantRanks, k: int) -> Values:
    return _sum(ranks, _within(ranks, k).astype(float)) / k


def _average_precision(ranks: RelevantRanks) -> Values:
    unranked_last = np.where(ranks.rank > 0, ranks.rank, np.iinfo(np.int64).max)
    by_rank = np.lexsort((unranked_last, ranks.query))
    precision = np.zeros(len(by_rank))
    precision[by_rank] = _places(ranks, by_rank) / unranked_last[by_rank]
    return _sum(ranks, np.where(ranks.rank > 0, precision, 0)) / _relevant(ranks)


_WITH_CUTOFF = {
    "ndcg": _ndcg,
    "mrr": _reciprocal_rank,
    "recall": _recall,
    "precision": _precision,
}
