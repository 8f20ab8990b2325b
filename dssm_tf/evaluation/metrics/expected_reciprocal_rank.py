"""Expected reciprocal rank."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, gain, highest_grade, rank


def expected_reciprocal_rank(k: int) -> pl.Expr:
    """`sum over r <= k of 1/r R(r) prod over s < r of (1 - R(s))`: 1/r, where a reader stops at r.

    `R = (2^grade - 1) / 2^highest grade` is the probability of stopping at a title.

    Reference: Chapelle et al. 2009, eq. 4 and 5.
    """
    within = rank.filter(rank <= k)
    stops = (gain / 2.0**highest_grade).filter(rank <= k).sort_by(within)
    reached = (1 - stops).cum_prod().shift(1, fill_value=1)
    return (stops * reached / within.sort()).sum()


EXPECTED_RECIPROCAL_RANK = BuiltInMetric(expected_reciprocal_rank, "ERR")
