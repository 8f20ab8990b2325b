"""Hybrids: several runs and the titles' popularity in one ranking, weights by cross validation.

A hybrid joins, query by query, the titles of its members' rankings. A title that a member does not
list has that member's lowest score (linear) or no share (reciprocal ranks). A row with the prior is
a hybrid of two: the score of one system as it is, and the title's log share of clicks times a
weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.benchmark.folds import FINAL, by_fold, choose, described, of_fold, to_choose_by
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX
from dssm_tf.evaluation.ranking import RelevantRanks
from dssm_tf.evaluation.runs import DEPTH
from dssm_tf.evaluation.task import RankingTask

PRIOR = "prior"
"""What the titles' log-prior is called inside a hybrid."""

_RRF_K = (1, 3, 10, 30, 60, 100)
_PRIOR_WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
# By the number of members: into how many steps the weights' sum is cut. At most 231 weightings.
_STEPS = {2: 20, 3: 20, 4: 8, 5: 6}

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Hybrid:
    """A row that fuses other rows.

    Attributes:
        name: of the row, as written by the user.
        members: rows, and `prior` for the titles' log-prior.
        kind: `linear`, weighted scores, `rrf`, reciprocal ranks, or `prior`, a score as it is and
            the weighted log-prior.
    """

    name: str
    members: tuple[str, ...]
    kind: Literal["linear", "rrf", "prior"] = "linear"

    @classmethod
    def with_prior(cls, row: str) -> Hybrid:
        """A row ranked by its score and the titles' prior."""
        return cls(row + PRIOR_SUFFIX, (row, PRIOR), "prior")

    @classmethod
    def parse(cls, text: str, rows: Sequence[str]) -> Hybrid:
        """From `a+b`, `a+b+prior` or `rrf:a+b`; a row's name may hold a plus sign itself.

        Raises:
            UserError: a member is unknown, comes twice or is alone.
        """
        rest = text.removeprefix("rrf:")
        kind: Literal["linear", "rrf"] = "linear" if rest == text else "rrf"
        members: list[str] = []
        known = sorted([*rows, PRIOR], key=len, reverse=True)
        while rest:
            found = next((name for name in known if f"{rest}+".startswith(f"{name}+")), None)
            if found is None:
                raise UserError(
                    f"--hybrid {text}: there is no row {rest.split('+')[0]!r}; join rows of this "
                    f"benchmark ({', '.join(rows)}) and {PRIOR}, as in a+b+{PRIOR} or rrf:a+b."
                )
            members.append(found)
            rest = rest[len(found) + 1 :]
        if len(members) not in _STEPS or len(set(members)) < len(members):
            raise UserError(
                f"--hybrid {text}: expected two to {max(_STEPS)} different members joined by +."
            )
        return cls(text, tuple(members), kind)


def weightings(members: int) -> list[tuple[float, ...]]:
    """Weights above 0 or 0 that add up to 1, in equal steps; the most even first.

    >>> weightings(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    steps = _STEPS[members]
    found = [parts for parts in product(range(steps + 1), repeat=members) if sum(parts) == steps]
    found.sort(key=lambda parts: (max(parts) - min(parts), parts))
    return [tuple(part / steps for part in parts) for parts in found]


def fuse(
    hybrid: Hybrid,
    members: Mapping[str, pl.DataFrame],
    log_prior: Values,
    task: RankingTask,
    fold: NDArray[np.int64],
    tune: str,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Ranks by a hybrid, its weights or k chosen by cross validation.

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
    final = of_fold(members[hybrid.members[0]], FINAL)
    unit = _prior_unit(final, log_prior, task) if hybrid.kind == "prior" else 1.0
    settings, weights = _settings(hybrid, unit)
    alike = all("fold" not in run.columns for run in members.values())
    pools = [_pool(hybrid, members, log_prior, number) for number in ((0,) if alike else range(3))]
    values = [_values(*pool, weights, task, tune) for pool in pools]
    if alike:
        pools, values = pools * 3, values * 3
    # The setting of a fold is chosen on the other one, by the members' settings of that fold.
    chosen = [(choose(one, fold) or [0, 0, 0])[number] for number, one in enumerate(values)]
    made: dict[Any, pl.DataFrame] = {}
    runs = []
    for (pool, parts), place in zip(pools, chosen, strict=True):
        key = id(pool), place
        if key not in made:
            made[key] = _rank(pool.with_columns(score=(parts @ weights[place]).round(12)))
        runs.append(made[key])
    can_choose = bool(choose(values[0], fold))
    about = described(settings, chosen if can_choose else [], values, fold, tune)
    return by_fold(runs), about


def _settings(hybrid: Hybrid, unit: float) -> tuple[list[dict[str, Any]], Values]:
    """What cross validation chooses from, and the same as weights of `_pool`'s parts."""
    if hybrid.kind == "rrf":
        return [{"k": k} for k in _RRF_K], np.eye(len(_RRF_K))
    if hybrid.kind == "prior":
        settings: list[dict[str, Any]] = [{"prior": unit * weight} for weight in _PRIOR_WEIGHTS]
        return settings, np.array([[1.0, setting["prior"]] for setting in settings])
    found = weightings(len(hybrid.members))
    settings = [
        {"scale": scale, "weights": dict(zip(hybrid.members, weights, strict=True))}
        for scale in ("min-max", "z-norm")
        for weights in found
    ]
    table = np.array(found)
    return settings, np.block([[table, 0 * table], [0 * table, table]])


def _pool(
    hybrid: Hybrid, members: Mapping[str, pl.DataFrame], log_prior: Values, number: int
) -> tuple[pl.DataFrame, Values]:
    """The titles that any member lists, by query and title, and their parts `(titles, parts)`."""
    listed = [
        of_fold(members[name], number).select(
            "query", "title", pl.col("score").cast(pl.Float64).alias(name)
        )
        for name in hybrid.members
        if name != PRIOR
    ]
    pool = listed[0]
    for one in listed[1:]:
        pool = pool.join(one, on=["query", "title"], how="full", coalesce=True)
    pool = pool.sort("query", "title")
    if PRIOR in hybrid.members:
        pool = pool.with_columns(pl.Series(PRIOR, log_prior[pool["title"].to_numpy()]))
    scores = [pl.col(name) for name in hybrid.members]
    if hybrid.kind == "rrf":
        # Cormack, Clarke and Buettcher 2009, sec. 2.
        ranks = pool.select(one.rank("ordinal", descending=True).over("query") for one in scores)
        table = ranks.to_numpy().astype(np.float64)
        parts = np.stack([np.nansum(1 / (k + table), axis=1) for k in _RRF_K], axis=1)
    elif hybrid.kind == "prior":
        parts = pool.select(scores).to_numpy()
    else:
        filled = pool.with_columns(
            one.fill_null(one.min().over("query")).fill_null(0) for one in scores
        )
        parts = filled.select(
            pl.when(one.max().over("query") > one.min().over("query"))
            .then((one - low.over("query")) / scale.over("query"))
            .otherwise(0.0)
            .alias(f"{number}")
            for number, (one, low, scale) in enumerate(
                [(one, one.min(), one.max() - one.min()) for one in scores]
                + [(one, one.mean(), one.std(ddof=0)) for one in scores]
            )
        ).to_numpy()
    return pool.select("query", "title"), parts


def _values(
    pool: pl.DataFrame, parts: Values, weights: Values, task: RankingTask, tune: str
) -> Values:
    """The metric by every setting, `(settings, queries)`.

    Only the relevant titles are ranked, by counting what is above them.
    """
    relevant = task.relevant.join(
        pool.with_row_index("at"), on=["query", "title"], how="left", maintain_order="left"
    )
    query, grade = relevant["query"].to_numpy(), relevant["grade"].to_numpy()
    at = relevant["at"].cast(pl.Int64).fill_null(-1).to_numpy()
    starts = np.searchsorted(pool["query"].to_numpy(), np.arange(len(task.queries) + 1))
    ranks = np.zeros((len(weights), len(at)), np.int64)
    last, scores = -1, np.empty(0)
    for number in np.flatnonzero(at >= 0):
        start, end = starts[query[number]], starts[query[number] + 1]
        if start != last:
            last, scores = start, (parts[start:end] @ weights.T).round(12)
        place = at[number] - start
        above = (scores > scores[place]).sum(axis=0)
        ranks[:, number] = 1 + above + (scores[:place] == scores[place]).sum(axis=0)
    found = [RelevantRanks(len(task.queries), query, row, grade) for row in ranks]
    return np.stack([to_choose_by(one, tune, task) for one in found])


def _rank(pool: pl.DataFrame) -> pl.DataFrame:
    """A run of scored titles."""
    ranked = pool.sort("query", "score", "title", descending=[False, True, False])
    ranked = ranked.with_columns(
        pl.col("score").cast(pl.Float32), rank=pl.int_range(1, pl.len() + 1).over("query")
    )
    return ranked.filter(pl.col("rank") <= DEPTH)


def _prior_unit(run: pl.DataFrame, log_prior: Values, task: RankingTask) -> float:
    """The weight by which the prior varies between titles as much as a system's scores do.

    Nobody's judgments take part in it: it puts one grid of weights on the scale of every system.
    """
    asked = run.filter(~pl.col("query").is_in(np.flatnonzero(task.misspelt)))
    variances = asked.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return (
        float(np.sqrt(variances.to_numpy().mean())) / spread if len(variances) and spread else 0.0
    )
