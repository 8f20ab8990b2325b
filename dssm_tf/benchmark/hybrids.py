"""Hybrids: rankings that fuse several runs, and the titles' popularity, with tuned weights.

For each query, a hybrid ranks the titles that any of its members lists. A title that a member does
not list has that member's lowest score. A row with the prior is a special hybrid: it adds the
weighted log-prior of the title to the unscaled score of one system. Weights are chosen by
cross-validation.

The condensed run of a hybrid also has the judged titles that no member lists, with scores from the
same formula.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.benchmark.folds import FINAL, choose, describe_choice, join_rankings, select_fold
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.metrics import Values, per_query
from dssm_tf.evaluation.ranking import rank_of
from dssm_tf.evaluation.runs import Rankings, condensed_run, ranked
from dssm_tf.evaluation.task import RankingTask

PRIOR = "prior"
"""Name of the titles' log-prior as a member of a hybrid."""

_LOW, _HIGH, _LISTED = " low", " high", " listed"  # suffixes of columns
_PRIOR_WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
_STEPS = 20  # weights are multiples of 1/20: 231 combinations for two rows and the prior


class Hybrid(NamedTuple):
    """A row that fuses other rows.

    Attributes:
        name: name of the row, as written by the user.
        members: names of rows, and `prior` for the titles' log-prior.
        with_prior: True adds the weighted log-prior to the score of one row. False adds weighted
            scores, each scaled to 0 to 1 per query.
    """

    name: str
    members: tuple[str, ...]
    with_prior: bool = False

    @classmethod
    def parse(cls, text: str, rows: Sequence[str]) -> Hybrid:
        """Parses `a+b`, `a+prior` or `a+b+prior`; names of rows may contain plus signs.

        Raises:
            UserError: a member is unknown or repeated, or the number of members is wrong.
        """
        row = "|".join(map(re.escape, [*rows, PRIOR]))
        match = re.fullmatch(rf"({row})\+({row})(?:\+({PRIOR}))?", text)
        members = tuple(filter(None, match.groups())) if match else ()
        if not members or len({*members}) < len(members):
            raise UserError(
                f"--hybrid {text}: expected A+B, A+{PRIOR} or A+B+{PRIOR}, of the rows "
                f"{', '.join(rows)}."
            )
        return cls(text, members)

    def settings(self, unit: float) -> tuple[list[dict[str, Any]], Values]:
        """The settings that cross-validation tries, and their weights `(settings, addends)`.

        Args:
            unit: factor of the prior's weights, see `_prior_unit`.
        """
        if self.with_prior:
            priors = [unit * weight for weight in _PRIOR_WEIGHTS]
            return [{PRIOR: prior} for prior in priors], np.array([[1.0, p] for p in priors])
        weights = weightings(len(self.members))
        settings = [dict(zip(self.members, setting, strict=True)) for setting in weights]
        return settings, np.array(weights)

    def addends(self, titles: pl.DataFrame, pool: pl.DataFrame) -> Values:
        """The unweighted addends of each title's score: `(titles, addends)`.

        Args:
            titles: titles by `query`, with the scores of each member; null if a member does not
                rank the title.
            pool: the titles that the hybrid ranks, with the same columns. A hybrid without a row
                for the prior scales scores so that those of the pool are from 0 to 1.
        """
        scores = pl.col(self.members)
        if self.with_prior:
            return titles.select(scores).to_numpy()
        ranges = pool.group_by("query").agg(
            scores.min().fill_null(0.0).name.suffix(_LOW), scores.max().name.suffix(_HIGH)
        )
        titles = titles.join(ranges, on="query", how="left", maintain_order="left")
        scaled = []
        for name in self.members:
            low, spread = pl.col(name + _LOW), pl.col(name + _HIGH) - pl.col(name + _LOW)
            fraction = (pl.col(name) - low) / spread
            # A title without a score has the lowest one, as all have if there is no spread.
            scaled.append(
                pl.when(spread > 0).then(fraction.fill_null(0.0)).otherwise(0.0).alias(name)
            )
        return titles.select(scaled).to_numpy()


def weightings(members: int) -> list[tuple[float, ...]]:
    """All weights that are multiples of 1/20 and add up to 1; the most even ones first.

    >>> weightings(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    steps = product(range(_STEPS + 1), repeat=members)
    combinations = [counts for counts in steps if sum(counts) == _STEPS]
    combinations.sort(key=lambda counts: (max(counts) - min(counts), counts))
    return [tuple(count / _STEPS for count in counts) for counts in combinations]


def rank_hybrid(
    hybrid: Hybrid,
    members: Mapping[str, Rankings],
    log_prior: Values,
    task: RankingTask,
    fold: NDArray[np.int64],
    tune: str,
) -> tuple[Rankings, dict[str, Any]]:
    """Ranks by a hybrid, whose weights are chosen by cross-validation.

    Args:
        hybrid: the members and how their scores are added.
        members: rankings of the members, by name, without `prior`.
        log_prior: `(titles,)`, of `RankingTask.titles`.
        task: queries and titles.
        fold: `(queries,)`, see `assign_folds`.
        tune: the metric to maximize.

    Returns:
        The rankings, and the chosen settings for `metrics.json`.
    """
    runs = {name: rankings.run for name, rankings in members.items()}
    condensed_runs = {name: rankings.condensed for name, rankings in members.items()}
    untuned = all("fold" not in run.columns for run in runs.values())
    constant_folds = [np.full_like(fold, setting_fold) for setting_fold in range(3)]
    final = select_fold(runs[hybrid.members[0]], constant_folds[FINAL])
    unit = _prior_unit(final, log_prior) if hybrid.with_prior else 1.0
    settings, weights = hybrid.settings(unit)

    @cache
    def pooled(setting_fold: int) -> tuple[pl.DataFrame, Values, list[int]]:
        pool = _pool(runs, log_prior, constant_folds[setting_fold])
        addends = hybrid.addends(pool, pool)
        return pool, addends, choose(_metric_values(pool, addends, weights, task, tune), fold)

    @cache
    def ranking(setting_fold: int, setting: int) -> Rankings:
        pool, addends, _ = pooled(setting_fold)
        listed = _weighted(pool, addends, weights[setting])
        judged = _pool(condensed_runs, log_prior, constant_folds[setting_fold])
        judged = _weighted(judged, hybrid.addends(judged, pool), weights[setting])
        # A listed title keeps its score, in which a member that does not list it has its lowest.
        scored = judged.join(listed, on=["query", "title"], how="left", suffix=_LISTED)
        scored = scored.with_columns(score=pl.coalesce("score" + _LISTED, "score"))
        return Rankings(ranked(listed), condensed_run(scored, task))

    # The weights for a fold are chosen on the other fold, from the rankings that the members have
    # for this fold: no judgment of this fold affects them.
    rankings, chosen = [], []
    for setting_fold in range(3):
        source = FINAL if untuned else setting_fold
        best_of_folds = pooled(source)[2]
        setting = best_of_folds[setting_fold] if best_of_folds else 0
        rankings.append(ranking(source, setting))
        chosen.append(settings[setting])
    return join_rankings(rankings), describe_choice(chosen if pooled(FINAL)[2] else [])


def _weighted(pool: pl.DataFrame, addends: Values, weights: Values) -> pl.DataFrame:
    """The titles of a pool with the weighted sum of their addends as `score`."""
    return pool.select("query", "title", pl.Series("score", (addends @ weights).round(12)))


def _pool(
    members: Mapping[str, pl.DataFrame], log_prior: Values, fold: NDArray[np.int64]
) -> pl.DataFrame:
    """The titles that any member lists, with the members' scores and the prior.

    Returns:
        A frame of `query`, `title`, one column of scores per member, and `prior`; sorted.
    """
    listed = [
        select_fold(run, fold).select(
            "query", "title", pl.col("score").cast(pl.Float64).alias(name)
        )
        for name, run in members.items()
    ]
    pool = pl.concat(listed, how="align_full").sort("query", "title")
    return pool.with_columns(pl.Series(PRIOR, log_prior[pool["title"]]))


def _metric_values(
    pool: pl.DataFrame, addends: Values, weights: Values, task: RankingTask, tune: str
) -> Values:
    """The metric of every setting, `(settings, queries)`.

    Only ranks of relevant titles are computed, by counting the titles above them.
    """
    relevant = task.relevant.join(
        pool.with_row_index("row"), on=["query", "title"], how="left", maintain_order="left"
    )
    ranks = np.full((len(weights), len(relevant)), np.nan)
    offsets = np.searchsorted(pool["query"], np.arange(len(task.queries) + 1))
    listed = relevant.with_row_index("number").drop_nulls("row")
    for (query,), rows in listed.group_by("query"):
        scores = (addends[offsets[query] : offsets[query + 1]] @ weights.T).round(12)
        for index, row in rows.select("number", "row").iter_rows():
            ranks[:, index] = rank_of(scores, row - offsets[query])
    frames = (relevant.with_columns(rank=row) for row in ranks)
    return np.stack([per_query(frame, len(task.queries), [tune])[tune] for frame in frames])


def _prior_unit(run: pl.DataFrame, log_prior: Values) -> float:
    """The weight at which the prior varies between titles as much as the system's scores do.

    It scales the grid of prior weights to each system. It uses no judgments.
    """
    variances = run.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return float(np.sqrt(variances.to_numpy().mean())) / spread if spread else 0.0
