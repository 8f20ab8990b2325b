"""Hybrids: several runs and the titles' popularity in one ranking, weights by cross validation.

A hybrid joins, query by query, the titles of its members' rankings. A title that a member does not
list has that member's lowest score. A row with the prior is a hybrid of two: the score of one
system as it is, and the title's log share of clicks times a weight.
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

from dssm_tf.benchmark.folds import FINAL, by_fold, choose, describe_choice, of_fold
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import rank_of
from dssm_tf.evaluation.runs import ranked
from dssm_tf.evaluation.task import RankingTask

PRIOR = "prior"
"""Name of the titles' log-prior inside a hybrid."""

_PRIOR_WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
_STEPS = 20  # of the sum of the weights: 231 weightings of two rows and the prior

Values = NDArray[np.float64]


class Hybrid(NamedTuple):
    """A row that fuses other rows.

    Attributes:
        name: of the row, as written by the user.
        members: rows, and `prior` for the titles' log-prior.
        with_prior: whether it adds the weighted log-prior to the score of one row; else it is a
            weighted sum of scores that are scaled to 0 to 1, query by query.
    """

    name: str
    members: tuple[str, ...]
    with_prior: bool = False

    @classmethod
    def parse(cls, text: str, rows: Sequence[str]) -> Hybrid:
        """From `a+b` or `a+b+prior`; the name of a row may contain a plus sign.

        Raises:
            UserError: a member is unknown, comes twice or is alone, or there are more.
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
        """The settings that cross validation tries, and the same as weights of `addends`.

        Args:
            unit: of the weights of the prior, see `_prior_unit`.
        """
        if self.with_prior:
            priors = [unit * weight for weight in _PRIOR_WEIGHTS]
            return [{PRIOR: prior} for prior in priors], np.array([[1.0, p] for p in priors])
        tried = weightings(len(self.members))
        return [dict(zip(self.members, w, strict=True)) for w in tried], np.array(tried)

    def addends(self, pool: pl.DataFrame) -> Values:
        """The addends of each title's score, before their weights: `(titles, addends)`.

        Args:
            pool: titles by `query`, with the scores of each member; null if it lists another.
        """
        scores = pl.col(self.members)
        if self.with_prior:
            return pool.select(scores).to_numpy()
        pool = pool.with_columns(scores.fill_null(scores.min().over("query")).fill_null(0.0))
        scaled = (scores - scores.min()) / (scores.max() - scores.min())
        return pool.select(scaled.over("query").fill_nan(0.0)).to_numpy()


def weightings(members: int) -> list[tuple[float, ...]]:
    """Weights of at least 0 that add up to 1, in equal steps; the most even first.

    >>> weightings(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    steps = product(range(_STEPS + 1), repeat=members)
    in_steps = [counts for counts in steps if sum(counts) == _STEPS]
    in_steps.sort(key=lambda counts: (max(counts) - min(counts), counts))
    return [tuple(count / _STEPS for count in counts) for counts in in_steps]


def fuse(
    hybrid: Hybrid,
    members: Mapping[str, pl.DataFrame],
    log_prior: Values,
    task: RankingTask,
    fold: NDArray[np.int64],
    tune: str,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Ranks by a hybrid, its weights chosen by cross validation.

    Args:
        hybrid: members and kind of the sum.
        members: runs of its members but `prior`.
        log_prior: `(titles,)`, of `RankingTask.titles`.
        task: queries and titles.
        fold: of each query, see `folds`.
        tune: the metric to choose by.

    Returns:
        The run, and the chosen settings for the result.
    """
    alike = all("fold" not in run.columns for run in members.values())
    constant = [np.full_like(fold, number) for number in range(3)]
    final = of_fold(members[hybrid.members[0]], constant[FINAL])
    unit = _prior_unit(final, log_prior) if hybrid.with_prior else 1.0
    settings, weights = hybrid.settings(unit)

    @cache
    def pooled(number: int) -> tuple[pl.DataFrame, Values, list[int]]:
        pool = _pool(members, log_prior, constant[number])
        addends = hybrid.addends(pool)
        return pool, addends, choose(_values(pool, addends, weights, task, tune), fold)

    @cache
    def ranking(number: int, setting: int) -> pl.DataFrame:
        pool, addends, _ = pooled(number)
        score = pl.Series("score", (addends @ weights[setting]).round(12))
        return ranked(pool.select("query", "title", score))

    # The setting of a fold is chosen on the other one, by the members' settings of that fold.
    runs, chosen = [], []
    for number in range(3):
        source = FINAL if alike else number
        best_of_folds = pooled(source)[2]
        setting = best_of_folds[number] if best_of_folds else 0
        runs.append(ranking(source, setting))
        chosen.append(settings[setting])
    return by_fold(runs), describe_choice(chosen if pooled(FINAL)[2] else [])


def _pool(
    members: Mapping[str, pl.DataFrame], log_prior: Values, fold: NDArray[np.int64]
) -> pl.DataFrame:
    """The titles that any member lists, by query and title, with its scores and the prior."""
    listed = [
        of_fold(run, fold).select("query", "title", pl.col("score").cast(pl.Float64).alias(name))
        for name, run in members.items()
    ]
    pool = pl.concat(listed, how="align_full").sort("query", "title")
    return pool.with_columns(pl.Series(PRIOR, log_prior[pool["title"]]))


def _values(
    pool: pl.DataFrame, addends: Values, weights: Values, task: RankingTask, tune: str
) -> Values:
    """The metric by every setting, `(settings, queries)`.

    Only the relevant titles are ranked, by counting the titles above them.
    """
    relevant = task.relevant.join(
        pool.with_row_index("row"), on=["query", "title"], how="left", maintain_order="left"
    )
    ranks = np.full((len(weights), len(relevant)), np.nan)
    ends = np.searchsorted(pool["query"], np.arange(len(task.queries) + 1))
    listed = relevant.with_row_index("number").drop_nulls("row")
    for (query,), rows in listed.group_by("query"):
        scores = (addends[ends[query] : ends[query + 1]] @ weights.T).round(12)
        for number, row in rows.select("number", "row").iter_rows():
            ranks[:, number] = rank_of(scores, row - ends[query])
    frames = (relevant.with_columns(rank=row) for row in ranks)
    return np.stack([per_query(frame, len(task.queries), [tune])[tune] for frame in frames])


def _prior_unit(run: pl.DataFrame, log_prior: Values) -> float:
    """The weight by which the prior varies between titles as much as a system's scores do.

    It uses no judgments. It scales one grid of weights to every system.
    """
    variances = run.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return float(np.sqrt(variances.to_numpy().mean())) / spread if spread else 0.0
