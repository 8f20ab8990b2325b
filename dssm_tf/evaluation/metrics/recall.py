"""Recall: the fraction of the relevant titles that are in the first k ranks."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, rank


def recall(k: int) -> pl.Expr:
    """`relevant titles in the first k ranks / relevant titles`.

    Reference: Manning, Raghavan and Schütze 2008, sec. 8.3.
    """
    return (rank <= k).sum() / pl.len()


RECALL = BuiltInMetric(recall, "Recall")
