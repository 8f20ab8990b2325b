"""Precision: the fraction of the first titles that are relevant."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, rank


def precision(k: int) -> pl.Expr:
    """`relevant titles in the first k ranks / k`, also if fewer than `k` titles are ranked.

    Reference: Manning, Raghavan and Schütze 2008, sec. 8.4.
    """
    return (rank <= k).sum() / k


PRECISION = BuiltInMetric(precision, "Precision")
