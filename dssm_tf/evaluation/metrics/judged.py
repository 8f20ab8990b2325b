"""Judgment rate: the fraction of the first titles that have a judgment."""

from __future__ import annotations

import polars as pl

from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric, grade, rank


def judged(k: int) -> pl.Expr:
    """`judged titles in the first k ranks / ranked titles in the first k ranks`.

    A judgment may have any grade, also 0. Unlike the other expressions, this one needs all judged
    titles of a query that are ranked, and the last ranked title, whose rank is the number of ranked
    titles; `grade` is null for a title without a judgment. The value describes a ranking and not
    its quality: every metric counts a title without a judgment as not relevant.

    Reference: `Judged@k` of MacAvaney, Macdonald and Ounis 2022 (ir_measures).
    """
    judged_titles = (grade.is_not_null() & (rank <= k)).sum()
    return judged_titles / rank.max().clip(upper_bound=k)


JUDGED = BuiltInMetric(judged, "Judged")
