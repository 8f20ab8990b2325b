"""Rankings of a system with the weighted log-prior of the titles added to the scores.

The score of a title is that of the system plus a weight times the title's log-prior. The weight is
chosen by cross-validation. Only titles in the system's run are ranked again, see `run_depth`.

The condensed run also has the judged titles that the system does not list, with scores from the
same formula.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.benchmark.folds import FINAL, choose, describe_choice, join_rankings, select_fold
from dssm_tf.evaluation.metrics import Values, per_query
from dssm_tf.evaluation.ranking import rank_of
from dssm_tf.evaluation.runs import Rankings, condensed_run, rank_scores, run_depth
from dssm_tf.evaluation.task import RankingTask

PRIOR = "prior"
"""Name of the weight in the chosen settings."""

WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
"""Candidate weights, in units of `_prior_unit`."""


def rank_with_prior(
    rankings: Rankings,
    log_prior: Values,
    task: RankingTask,
    fold: NDArray[np.int64],
    tune: str,
) -> tuple[Rankings, dict[str, Any]]:
    """Adds the weighted log-prior to the scores of a system; cross-validation chooses the weight.

    Args:
        rankings: the rankings of the system.
        log_prior: `(titles,)`, of `RankingTask.titles`.
        task: queries and titles.
        fold: `(queries,)`, see `assign_folds`.
        tune: the metric to maximize.

    Returns:
        The rankings, and the chosen weights for `metrics.json`.
    """
    # Below this rank, a run may contain judged titles only, which would get too high ranks.
    run = rankings.run.filter(pl.col("rank") <= run_depth(len(task.queries)))
    has_one_setting = "fold" not in run.columns
    constant_folds = [np.full_like(fold, setting_fold) for setting_fold in range(3)]
    unit = _prior_unit(select_fold(run, constant_folds[FINAL]), log_prior)
    weights = unit * np.array(WEIGHTS)

    @cache
    def pool_and_weights(setting_fold: int) -> tuple[pl.DataFrame, list[int]]:
        """The run by the setting of a fold, and the indices of the best weights for each fold."""
        pool = _with_log_prior(run, log_prior, constant_folds[setting_fold])
        return pool, choose(_metric_values(pool, weights, task, tune), fold)

    @cache
    def ranking(setting_fold: int, weight_index: int) -> Rankings:
        """The rankings by the setting of a fold, with a weight of the prior."""
        weight = weights[weight_index]
        judged = _with_log_prior(rankings.condensed, log_prior, constant_folds[setting_fold])
        return Rankings(
            rank_scores(_add_prior(pool_and_weights(setting_fold)[0], weight)),
            condensed_run(_add_prior(judged, weight), task),
        )

    # The weight for a fold is chosen on the other fold, with the system that was tuned for this
    # fold. So no judgment of this fold affects the choice.
    joined, chosen = [], []
    for fold_index in range(3):
        setting_fold = FINAL if has_one_setting else fold_index
        best_of_folds = pool_and_weights(setting_fold)[1]
        weight_index = best_of_folds[fold_index] if best_of_folds else 0
        joined.append(ranking(setting_fold, weight_index))
        chosen.append({PRIOR: float(weights[weight_index])})
    return join_rankings(joined), describe_choice(chosen if pool_and_weights(FINAL)[1] else [])


def _with_log_prior(run: pl.DataFrame, log_prior: Values, fold: NDArray[np.int64]) -> pl.DataFrame:
    """The titles of a run with the columns `query`, `title`, `score` and `prior`; sorted."""
    listed = select_fold(run, fold).select("query", "title", pl.col("score").cast(pl.Float64))
    listed = listed.sort("query", "title")
    return listed.with_columns(pl.Series(PRIOR, log_prior[listed["title"]]))


def _add_prior(pool: pl.DataFrame, weight: float) -> pl.DataFrame:
    """Adds the weighted log-prior to the `score` of each title."""
    return pool.select(
        "query", "title", (pl.col("score") + weight * pl.col(PRIOR)).round(12).alias("score")
    )


def _metric_values(pool: pl.DataFrame, weights: Values, task: RankingTask, tune: str) -> Values:
    """The metric of every weight, `(weights, queries)`.

    Only ranks of relevant titles are computed, by counting the titles above them.
    """
    relevant = task.relevant.join(
        pool.with_row_index("row"), on=["query", "title"], how="left", maintain_order="left"
    )
    ranks = np.full((len(weights), len(relevant)), np.nan)
    addends = pool.select("score", PRIOR).to_numpy()
    factors = np.stack([np.ones_like(weights), weights])
    offsets = np.searchsorted(pool["query"], np.arange(len(task.queries) + 1))
    listed = relevant.with_row_index("number").drop_nulls("row")
    for (query,), rows in listed.group_by("query"):
        scores = (addends[offsets[query] : offsets[query + 1]] @ factors).round(12)
        for index, row in rows.select("number", "row").iter_rows():
            ranks[:, index] = rank_of(scores, row - offsets[query])
    frames = (relevant.with_columns(rank=row) for row in ranks)
    return np.stack([per_query(frame, len(task.queries), [tune])[tune] for frame in frames])


def _prior_unit(run: pl.DataFrame, log_prior: Values) -> float:
    """The weight that gives the prior about the standard deviation of the system's scores.

    It scales the grid of weights to each system. It uses no judgments.
    """
    variances = run.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return float(np.sqrt(variances.to_numpy().mean())) / spread if spread else 0.0
