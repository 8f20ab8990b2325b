"""NDCG, reciprocal rank, recall, precision, average precision and ERR in NumPy.

A metric is a function of the ranks of the relevant titles and a cut-off, and a row of `MEASURES`;
names, labels and help follow from it. The gain is `2^grade - 1`, the discount `log2(rank + 1)`; a
title is relevant when its grade is above 0. `tf_ranking` computes the NDCG that is reported; this
one, without TensorFlow, is what training validates by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import RelevantRanks

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "recall@10", "map")
"""What an evaluation reports, in the order of its table."""

Values = NDArray[np.float64]


class Measure(NamedTuple):
    """A metric without its cut-off.

    Attributes:
        compute: from ranks and the cut-off to `(queries,)`; queries without a relevant title do not
            count.
        label: how tables head its column.
        default: the cut-off where a name has none; None where it must.
    """

    compute: Callable[[RelevantRanks, int], Values]
    label: str
    default: int | None = None


def metric_label(metric: str) -> str:
    """How tables head a metric's column.

    >>> [metric_label(name) for name in ("ndcg@10", "recall@10", "map")]
    ['NDCG@10', 'Recall@10', 'MAP']
    """
    kind, at, cutoff = metric.partition("@")
    return MEASURES[kind].label + at + cutoff


def parse_metric(name: str) -> tuple[str, int]:
    """Splits a metric's name into a key of `MEASURES` and its cut-off.

    >>> parse_metric("ndcg@10"), parse_metric("map")
    (('ndcg', 10), ('map', 1000))

    Raises:
        UserError: there is no such metric.
    """
    kind, at, cutoff = name.partition("@")
    if kind in MEASURES:
        if not at and (default := MEASURES[kind].default):
            return kind, default
        if cutoff.isdecimal() and int(cutoff) > 0:
            return kind, int(cutoff)
    raise UserError(
        f"metric {name!r}: expected one of {', '.join(MEASURES)} with a cut-off, as in ndcg@10, or "
        "map."
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
        values[name] = np.where(ranks.judged, MEASURES[kind].compute(ranks, cutoff), np.nan)
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


def _average_precision(ranks: RelevantRanks, k: int) -> Values:
    unranked_last = np.where(_within(ranks, k), ranks.rank, np.iinfo(np.int64).max)
    by_rank = np.lexsort((unranked_last, ranks.query))
    precision = np.zeros(len(by_rank))
    precision[by_rank] = _places(ranks, by_rank) / unranked_last[by_rank]
    return _sum(ranks, np.where(_within(ranks, k), precision, 0)) / _relevant(ranks)


def _expected_reciprocal_rank(ranks: RelevantRanks, k: int) -> Values:
    """`sum 1/r R(r) prod over s < r of (1 - R(s))`, `R = (2^grade - 1) / 2^highest grade`.

    Reference: Chapelle et al. 2009, eq. 4 and 5.
    """
    stops = (np.exp2(ranks.grade) - 1) / np.exp2(ranks.grade.max(initial=0))
    stops = np.where(_within(ranks, k), stops, 0)
    order = np.lexsort((ranks.rank, ranks.query))
    logs = np.log1p(-stops[order])
    passed = np.cumsum(logs) - logs
    first = np.arange(len(order)) + 1 - _places(ranks, order)  # of the same query
    passed -= passed[first]
    reached = np.empty(len(order))
    reached[order] = np.exp(passed)
    return _sum(ranks, stops * reached / np.maximum(ranks.rank, 1))


MEASURES = {
    "ndcg": Measure(_ndcg, "NDCG"),
    "mrr": Measure(_reciprocal_rank, "MRR"),
    "recall": Measure(_recall, "Recall"),
    "precision": Measure(_precision, "Precision"),
    "map": Measure(_average_precision, "MAP", default=1000),
    "err": Measure(_expected_reciprocal_rank, "ERR"),
}
