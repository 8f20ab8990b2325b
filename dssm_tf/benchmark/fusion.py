"""Hybrids: several runs and the titles' popularity in one ranking, weights by cross validation.

A hybrid joins, query by query, the titles of its members' rankings. A title that a member does not
list has that member's lowest score. A row with the prior is a hybrid of two: the score of one
system as it is, and the title's log share of clicks times a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.benchmark.folds import FINAL, by_fold, choose, described, of_fold, to_choose_by
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.fusion import scaled
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
            it is a weighted sum of scaled scores.
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
        rest, members = text, list[str]()
        known = sorted([*rows, PRIOR], key=len, reverse=True)
        while rest:
            found = next((name for name in known if f"{rest}+".startswith(f"{name}+")), None)
            if found is None:
                raise UserError(
                    f"--hybrid {text}: there is no row {rest.split('+')[0]!r}; join rows of this "
                    f"benchmark ({', '.join(rows)}) and {PRIOR}, as in a+b+{PRIOR}."
                )
            members.append(found)
            rest = rest[len(found) + 1 :]
        if not 1 < len(members) == len(set(members)) <= 2 + (PRIOR in members):
            raise UserError(f"--hybrid {text}: expected A+B, A+{PRIOR} or A+B+{PRIOR}.")
        return cls(text, tuple(members))

    def settings(self, unit: float) -> tuple[list[dict[str, Any]], Values]:
        """What cross validation chooses from, and the same as weights of `parts`.

        Args:
            unit: of the weights of the prior, see `_prior_unit`.
        """
        if self.with_prior:
            tried = [unit * weight for weight in _PRIOR_WEIGHTS]
            return [{PRIOR: one} for one in tried], np.array([[1.0, one] for one in tried])
        found = weightings(len(self.members))
        settings: list[dict[str, Any]] = [
            {"scale": scale, "weights": dict(zip(self.members, weights, strict=True))}
            for scale in ("min-max", "z-norm")
            for weights in found
        ]
        return settings, np.kron(np.eye(2), np.array(found))

    def parts(self, scores: Values) -> Values:
        """What the score of a query's titles is the weighted sum of.

        Args:
            scores: `(titles, members)`, NaN for a title that a member does not list.

        Returns:
            `(titles, parts)`.
        """
        if self.with_prior:
            return scores
        scores = np.nan_to_num(np.where(np.isnan(scores), np.fmin.reduce(scores), scores))
        spread = np.where(np.ptp(scores, axis=0), scores.std(axis=0), np.inf)
        return np.hstack([scaled(scores), (scores - scores.mean(axis=0)) / spread])


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
    unit = _prior_unit(final, log_prior, task) if hybrid.with_prior else 1.0
    settings, weights = hybrid.settings(unit)
    alike = all("fold" not in run.columns for run in members.values())
    made: dict[Any, pl.DataFrame] = {}
    keys = []
    # The setting of a fold is chosen on the other one, by the members' settings of that fold.
    for number in range(3):
        if not (number and alike):
            pool, parts = _pool(hybrid, members, log_prior, number)
            best = choose(_values(pool, parts, weights, task, tune), fold)
        place = best[number] if best else 0
        keys.append((0 if alike else number, place))
        if keys[-1] not in made:
            score = pl.Series("score", (parts @ weights[place]).round(12))
            made[keys[-1]] = ranked(pool.with_columns(score))
    about = described([settings[place] for _, place in keys] if best else [])
    return by_fold([made[key] for key in keys]), about


def _pool(
    hybrid: Hybrid, members: Mapping[str, pl.DataFrame], log_prior: Values, number: int
) -> tuple[pl.DataFrame, Values]:
    """The titles that any member lists, by query and title, and their parts `(titles, parts)`."""
    places = ["query", "title"]
    listed = [
        of_fold(run, number).select(*places, pl.col("score").cast(pl.Float64).alias(name))
        for name, run in members.items()
    ]
    pool = listed[0]
    for one in listed[1:]:
        pool = pool.join(one, on=places, how="full", coalesce=True)
    pool = pool.sort(places)
    pool = pool.with_columns(pl.Series(PRIOR, log_prior[pool["title"].to_numpy()]))
    scores, starts = pool.select(hybrid.members).to_numpy(), np.unique(pool["query"], True)[1]
    parts = [hybrid.parts(one) for one in np.split(scores, starts[1:])]
    return pool.select(places), np.concatenate(parts)


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
    last, scores = -1, parts
    for number, (query, at) in enumerate(relevant.select("query", "at").iter_rows()):
        if at is not None:
            if query != last:
                own = parts[ends[query] : ends[query + 1]]
                last, scores = query, (own @ weights.T).round(12)
            ranks[:, number] = rank_of(scores, at - ends[query])
    return np.stack([to_choose_by(relevant.with_columns(rank=one), tune, task) for one in ranks])


def _prior_unit(run: pl.DataFrame, log_prior: Values, task: RankingTask) -> float:
    """The weight by which the prior varies between titles as much as a system's scores do.

    Nobody's judgments take part in it: it puts one grid of weights on the scale of every system.
    """
    asked = run.filter(~pl.col("query").is_in(np.flatnonzero(task.misspelt)))
    variances = asked.group_by("query").agg(pl.col("score").cast(pl.Float64).var(ddof=0))["score"]
    spread = float(np.std(log_prior))
    return float(np.sqrt(variances.to_numpy().mean())) / spread if spread else 0.0
