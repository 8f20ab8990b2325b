"""The overlap of the judgments with the training logs of the systems."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.training_log import TrainingLog


class LogOverlap(NamedTuple):
    """The overlap of a training log with the judgments of an evaluation.

    Attributes:
        queries: number of measured queries that the log has; None if unknown.
        pairs: number of pairs of a query and a relevant title that the log has; None if unknown.
        marked: whether reports mark the figures of a system with this log, because they are too
            high for new queries. Marked figures are never bold and have no superscripts.
    """

    queries: int | None
    pairs: int | None
    marked: bool


UNKNOWN = LogOverlap(None, None, False)
"""The overlap of a system whose training log is unknown."""


def log_overlap(
    task: RankingTask, log: TrainingLog | None, common: TrainingLog | None = None
) -> LogOverlap:
    """Counts the measured queries and the relevant pairs of a task in a training log.

    Args:
        task: the judgments.
        log: the log of a system; None if unknown.
        common: the log that all systems of a benchmark learn from. The overlap is marked only if
            `log` has judged queries or pairs that `common` lacks.
    """
    if log is None:
        return UNKNOWN
    measured = [task.queries[row] for row in np.flatnonzero(task.has_relevant)]
    queries = log.has_queries(measured)
    pair_queries = [task.queries[row] for row in task.relevant["query"]]
    pair_titles = [task.titles[row] for row in task.relevant["title"]]
    pairs = log.has_pairs(pair_queries, pair_titles)
    new_queries, new_pairs = queries, pairs
    if common is not None:
        new_queries = queries & ~common.has_queries(measured)
        common_pairs = common.has_pairs(pair_queries, pair_titles)
        if pairs is not None and common_pairs is not None:
            new_pairs = pairs & ~common_pairs
    marked = bool(new_queries.any()) or (new_pairs is not None and bool(new_pairs.any()))
    return LogOverlap(int(queries.sum()), None if pairs is None else int(pairs.sum()), marked)
