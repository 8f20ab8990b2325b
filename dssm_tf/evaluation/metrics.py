"""NDCG, reciprocal rank, recall, precision, average precision and ERR over frames.

A metric is an expression over the relevant titles of one query, with their `rank` and `grade`, and
a row of `MEASURES`; names, labels and help follow from it. The gain is `2^grade - 1`, the discount
`log2(rank + 1)`; a title is relevant when its grade is above 0. `tf_ranking` computes the NDCG that
is reported; this one, without TensorFlow, is what training validates by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "recall@10", "map")
"""What an evaluation reports, in the order of its table."""

Values = NDArray[np.float64]


class Measure(NamedTuple):
    """A metric without its cut-off.

    Attributes:
        compute: from the cut-off to an expression over the relevant titles of a query.
        label: how tables head its column.
        default: the cut-off where a name has none; None where it must.
    """

    compute: Callable[[int], pl.Expr]
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


def per_query(
    ranks: pl.DataFrame, queries: int, names: Sequence[str] = METRICS
) -> dict[str, Values]:
    """Computes metrics for every query.

    Args:
        ranks: the relevant titles, `query` from 0, `rank` from 1, null or NaN for one that is not
            ranked, and `grade` above 0.
        queries: how many there are, those without a relevant title included.
        names: see `parse_metric`.

    Returns:
        `(queries,)` float64 a metric, NaN for queries without a relevant title.
    """
    parsed = {name: parse_metric(name) for name in names}
    highest = ranks.with_columns(highest=pl.col("grade").max())
    found = highest.group_by("query").agg(
        MEASURES[kind].compute(cutoff).alias(name) for name, (kind, cutoff) in parsed.items()
    )
    values = {name: np.full(queries, np.nan) for name in names}
    for name, row in values.items():
        row[found["query"].to_numpy()] = found[name].to_numpy()
    return values


rank, gain = pl.col("rank"), 2.0 ** pl.col("grade") - 1


def _ndcg(k: int) -> pl.Expr:
    def gained(place: pl.Expr) -> pl.Expr:
        return (gain / (place + 1).log(2)).filter(place <= k).sum()

    return gained(rank) / gained(pl.col("grade").rank("ordinal", descending=True))


def _reciprocal_rank(k: int) -> pl.Expr:
    return (1 / rank).filter(rank <= k).max().fill_null(0)


def _recall(k: int) -> pl.Expr:
    return (rank <= k).sum() / pl.len()


def _precision(k: int) -> pl.Expr:
    return (rank <= k).sum() / k


def _average_precision(k: int) -> pl.Expr:
    within = rank.filter(rank <= k)
    return (within.rank("ordinal") / within).sum() / pl.len()


def _expected_reciprocal_rank(k: int) -> pl.Expr:
    """`sum 1/r R(r) prod over s < r of (1 - R(s))`, `R = (2^grade - 1) / 2^highest grade`.

    Reference: Chapelle et al. 2009, eq. 4 and 5.
    """
    within = rank.filter(rank <= k)
    stops = (gain / 2.0 ** pl.col("highest")).filter(rank <= k).sort_by(within)
    reached = (1 - stops).cum_prod().shift(1, fill_value=1)
    return (stops * reached / within.sort()).sum()


MEASURES = {
    "ndcg": Measure(_ndcg, "NDCG"),
    "mrr": Measure(_reciprocal_rank, "MRR"),
    "recall": Measure(_recall, "Recall"),
    "precision": Measure(_precision, "Precision"),
    "map": Measure(_average_precision, "MAP", default=1000),
    "err": Measure(_expected_reciprocal_rank, "ERR"),
}
