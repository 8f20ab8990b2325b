"""Normalized discounted cumulative gain."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, gain, grade, rank


def ndcg(k: int) -> pl.Expr:
    """`DCG@k / DCG@k of the ideal order`, which sorts titles by grade, best first.

    `DCG@k = sum over ranks r <= k of (2^grade(r) - 1) / log2(r + 1)`.

    Reference: Järvelin and Kekäläinen 2002; this gain and discount are those of Burges et al. 2005.
    """

    def dcg(r: pl.Expr) -> pl.Expr:
        return (gain / (r + 1).log(2)).filter(r <= k).sum()

    return dcg(rank) / dcg(grade.rank("ordinal", descending=True))


NDCG = BuiltInMetric(ndcg, "NDCG")
