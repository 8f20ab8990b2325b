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

from dssm_tf.benchmark.folds import FINAL, by_fold, choose, described, of_fold
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import rank_of
from dssm_tf.evaluation.runs import ranked
from dssm_tf.evaluation.task import RankingTask

PRIOR = "prior"
"""What the titles' log-prior is called inside a hybrid."""

_PRIOR_WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
_STEPS = 20  # into which the sum of the weights is cut: 231 weightings of two rows and the prior

Values = NDArray[np.float64]


class Hybrid(NamedTuple):
    """A row that fuses other rows.

    Attributes:
        name: of the row, as written by the user.
        members: rows, and `prior` for the titles' log-prior.
        with_prior: whether it is the score of one row as it is, and the weighted log-prior; else
            it is a weighted sum of scores that are scaled to 0 to 1, query by query.
    """

    name: str
    members: tuple[str, ...]
    with_prior: bool = False

    @classmethod
    def parse(cls, text: str, rows: Sequence[str]) -> Hybrid:
        """From `a+b` or `a+b+prior`; a row's name may hold a plus sign itself.

        Raises:
            UserError: a member is unknown, comes twice or is alone, or there are more.
        """
        row = "|".join(map(re.escape, [*rows, PRIOR]))
        found = re.fullmatch(rf"({row})\+({row})(?:\+({PRIOR}))?", text)
        members = tuple(filter(None, found.groups())) if found else ()
        if not members or len({*members}) < len(members):
            raise UserError(
                f"--hybrid {text}: expected A+B, A+{PRIOR} or A+B+{PRIOR}, of the rows "
                f"{', '.join(rows)}."
            )
        return cls(text, members)

    def settings(self, unit: float) -> tuple[list[dict[str, Any]], Values]:
        """What cross validation chooses from, and the same as weights of `parts`.

        Args:
            unit: of the weights of the prior, see `_prior_unit`.
        """
        if self.with_prior:
            tried = [unit * weight for weight in _PRIOR_WEIGHTS]
            return [{PRIOR: one} for one in tried], np.array([[1.0, one] for one in tried])
        found = weightings(len(self.members))
        return [dict(zip(self.members, one, strict=True)) for one in found], np.array(found)

    def parts(self, pool: pl.DataFrame) -> Values:
        """What a title's score is the weighted sum of, `(titles, parts)`.

        Args:
            pool: titles by `query`, with the scores of each member; null if it lists another.
        """
        own = pl.col(self.members)
        if self.with_prior:
            return pool.select(own).to_numpy()
        pool = pool.with_columns(own.fill_null(own.min().over("query")).fill_null(0.0))
        scaled = (own - own.min()) / (own.max() - own.min())
        return pool.select(scaled.over("query").fill_nan(0.0)).to_numpy()


def weightings(members: int) -> list[tuple[float, ...]]:
    """Weights above 0 or 0 that add up to 1, in equal steps; the most even first.

    >>> weightings(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    steps = product(range(_STEPS + 1), repeat=members)
    found = [parts for parts in steps if sum(parts) == _STEPS]
    found.sort(key=lambda parts: (max(parts) - min(parts), parts))
    return [tuple(part / _STEPS for part in parts) for parts in found]


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
        hybrid: what to fuse how.
        members: runs of its members but `prior`.
        log_prior: `(titles,)`, of `RankingTask.titles`.
        task: what is ranked.
        fold: of each query, see `folds`.
        tune: the metric to choose by.

    Returns:
        The run, and what was chosen, for the result.
    """
    alike = all("fold" not in run.columns for run in members.values())
    of = [np.full_like(fold, number) for number in range(3)]
    final = of_fold(members[hybrid.members[0]], of[FINAL])
    unit = _prior_unit(final, log_prior) if hybrid.with_prior else 1.0
    settings, weights = hybrid.settings(unit)

    @cache
    def pooled(number: int) -> tuple[pl.DataFrame, Values, list[int]]:
        pool = _pool(members, log_prior, of[number])
        parts = hybrid.parts(pool)
        return pool, parts, choose(_values(pool, parts, weights, task, tune), fold)

    @cache
    def made(number: int, place: int) -> pl.DataFrame:
        pool, parts, _ = pooled(number)
        score = pl.Series("score", (parts @ weights[place]).round(12))
        return ranked(pool.select("query", "title", score))

    # The setting of a fold is chosen on the other one, by the members' settings of that fold.
    runs, chosen = [], []
    for number in range(3):
        source = FINAL if alike else number
        best_of_folds = pooled(source)[2]
        place = best_of_folds[number] if best_of_folds else 0
        runs.append(made(source, place))
        chosen.append(settings[place])
    return by_fold(runs), described(chosen if pooled(FINAL)[2] else [])


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
    pool: pl.DataFrame, parts: Values, weights: Values, task: RankingTask, tune: str
) -> Values:
    """The metric by every setting, `(settings, queries)`.

    Only the relevant titles are ranked, by counting what is above them.
    """
    relevant = task.relevant.join(
        pool.with_row_index("at"), on=["query", "title"], how="left", maintain_order="left"
    )
    ranks = np.full((len(weights), len(relevant)), np.nan)
    ends = np.searchsorted(pool["query"], np.arange(len(task.queries) + 1))
    listed = relevant.with_row_index("number").drop_nulls("at")
    for (query,), rows in listed.group_by("query"):
        scores = (parts[ends[query] : ends[query + 1]] @ weights.T).round(12)
        for number, at in rows.select("number", "at").iter_rows():
            ranks[:, number] = rank_of(scores, at - ends[query])
    ranked_by = (relevant.with_columns(rank=one) for one in ranks)
    return np.stack([per_query(one, len(task.queries), [tune])[tune] for one in ranked_by])


def _prior_unit(run: pl.DataFrame, log_prior: Values) -> float:
    """The weight by which the prior varies between titles as much as a system's scores do.

    Nobody's judgments take part in it: it puts one grid of weights on the scale of every system.
    """
    variances = run.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return float(np.sqrt(variances.to_numpy().mean())) / spread if spread else 0.0
