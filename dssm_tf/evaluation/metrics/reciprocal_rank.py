"""Reciprocal rank; its mean over the queries is the MRR."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, rank


def reciprocal_rank(k: int) -> pl.Expr:
    """`1 / rank of the first relevant title`, or 0 if that rank is above `k`.

    Reference: Voorhees 1999 (TREC-8 question answering track).
    """
    return (1 / rank).filter(rank <= k).max().fill_null(0)


RECIPROCAL_RANK = BuiltInMetric(reciprocal_rank, "MRR")
