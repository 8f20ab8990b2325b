"""A gate: is a new model worse than the live one, on clicks that neither has learned?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.significance import SIGNIFICANCE_LEVEL, paired_t_test
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.training_log import TrainingLog


class WorseError(UserError):
    """The new model is worse than the live one."""

    exit_code = 3


@dataclass(frozen=True)
class Gate:
    """The comparison of a new model with the live one.

    Attributes:
        new: name of the new model.
        live: name of the live model.
        metric: the metric that decides.
        queries: number of queries that both are measured on.
        left_out: number of queries that were left out, because a model has learned their clicks.
        new_mean: mean of the new model over the queries.
        live_mean: mean of the live model over the same queries.
        difference: mean of new minus live.
        ci95: 95 % interval of the difference.
        p: p-value of the paired t-test.
        tolerance: a loss up to this is accepted.
    """

    new: str
    live: str
    metric: str
    queries: int
    left_out: int
    new_mean: float
    live_mean: float
    difference: float
    ci95: tuple[float, float]
    p: float
    tolerance: float

    @property
    def worse(self) -> bool:
        """Whether the loss is significant and above the tolerance."""
        return self.p < SIGNIFICANCE_LEVEL and self.difference < -self.tolerance

    @property
    def title(self) -> str:
        """The requirement that the gate checks."""
        return f"{self.metric} of {self.new} is not worse than that of {self.live}"

    def line(self) -> str:
        """The result in one line."""
        low, high = self.ci95
        verdict = "worse" if self.worse else "not worse"
        if not self.worse and self.p < SIGNIFICANCE_LEVEL and self.difference < 0:
            verdict = "not worse by more than the tolerance"
        tolerance = f", tolerance {self.tolerance:g}" if self.tolerance else ""
        left_out_text = (
            f"; {self.left_out:,} with learned clicks are left out" if self.left_out else ""
        )
        return (
            f"{verdict}: {self.metric} of {self.new} {self.new_mean:.3f}, of {self.live} "
            f"{self.live_mean:.3f}, difference {self.difference:+.3f} (95 % interval {low:+.3f} to "
            f"{high:+.3f}, p = {self.p:.2g}{tolerance}) on {self.queries:,} queries{left_out_text}"
        )


def unlearned_queries(task: RankingTask, training_logs: Iterable[TrainingLog]) -> NDArray[np.bool_]:
    """A mask of the measured queries without a learned relevant title, `(queries,)`.

    A query is left out if a training log has one of its relevant pairs. If the pairs of a log are
    unknown, all of its queries are left out.
    """
    mask = task.has_relevant.copy()
    rows = task.relevant["query"].to_numpy()
    queries = [task.queries[row] for row in rows]
    titles = [task.titles[row] for row in task.relevant["title"]]
    for log in training_logs:
        pairs = log.has_pairs(queries, titles)
        if pairs is None:
            mask &= ~log.has_queries(task.queries)
        else:
            mask[rows[pairs]] = False
    return mask


def compare_with_live(
    evaluation: Evaluation,
    new: str,
    live: str,
    metric: str,
    training_logs: Iterable[TrainingLog],
    *,
    tolerance: float = 0.0,
    min_queries: int = 1,
) -> Gate:
    """Compares two rows of an evaluation on clicks that neither has learned.

    Args:
        evaluation: both systems, measured by the metric.
        new: name of the new model's row.
        live: name of the live model's row.
        metric: name of the metric.
        training_logs: those of the two models.
        tolerance: a loss up to this is accepted.
        min_queries: minimum number of queries.

    Raises:
        UserError: too few queries are left, or every ranking of most queries is perfect.
    """
    task = evaluation.task
    measured = evaluation.measured_queries
    if not task.ranks_corpus and 2 * task.single_grade_queries > measured:
        raise UserError(
            f"for {task.single_grade_queries:,} of {measured:,} queries all judged titles have the "
            "same grade, so every model is equally good; give --corpus, the titles to rank."
        )
    mask = unlearned_queries(task, training_logs)
    queries = int(mask.sum())
    if queries < min_queries:
        raise UserError(
            f"{queries:,} of {measured:,} judged queries have only clicks that neither {new} nor "
            f"{live} has learned, fewer than --min-queries {min_queries:,}; hold out more clicks, "
            "and train neither model on them."
        )
    values = [evaluation.values[name][metric][mask] for name in (new, live)]
    p, ci95 = paired_t_test(values[0] - values[1])
    new_mean, live_mean = (float(row.mean()) for row in values)
    return Gate(
        new=new,
        live=live,
        metric=metric,
        queries=queries,
        left_out=measured - queries,
        new_mean=new_mean,
        live_mean=live_mean,
        difference=new_mean - live_mean,
        ci95=ci95,
        p=p,
        tolerance=tolerance,
    )
