"""Average precision; its mean over the queries is the MAP."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, rank


def average_precision(k: int) -> pl.Expr:
    """`1/n * sum of precision@r over the ranks r <= k of relevant titles`.

    `n` is the number of relevant titles, so a title that is not in the first `k` ranks adds 0.

    Reference: Manning, Raghavan and Schütze 2008, sec. 8.4.
    """
    within = rank.filter(rank <= k)
    return (within.rank("ordinal") / within).sum() / pl.len()


AVERAGE_PRECISION = BuiltInMetric(average_precision, "MAP", default_cutoff=1000)
