"""Hybrids: several systems and the titles' popularity in one ranking, weights by cross validation.

A hybrid joins, query by query, the kept titles of its members' rankings (all of them in a small
corpus, see `worker.POOL`). A title that a member does not list has that member's lowest score
(linear) or no share (reciprocal ranks). A row with the prior is a hybrid of two: the score of one
system as it is, and the title's log share of clicks times a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.benchmark.cross_validation import (
    ByHalf,
    choose,
    choose_final,
    chosen_to_json,
    final_to_json,
    to_choose_by,
)
from dssm_tf.benchmark.moved import ChosenHybrid, fill, linear_fusion, pool_titles, ranks
from dssm_tf.benchmark.systems import PRIOR
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import Measured
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX
from dssm_tf.evaluation.ranking import Ranking, RelevantRanks, top_columns
from dssm_tf.evaluation.task import RankingTask

HYBRIDS = "hybrids"
"""The directory of final choices, in that of the benchmark."""

RRF_K = (1, 3, 10, 30, 60, 100)
_SCALES: tuple[Literal["min-max", "z-norm"], ...] = ("min-max", "z-norm")
PRIOR_WEIGHTS = (0.0, *(2.0 ** (step / 2) for step in range(-10, 5)))
"""Weights of the prior that are tried, in units of what makes it spread as far as the scores."""

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
        """From `a+b`, `a+b+prior` or `rrf:a+b`.

        Args:
            text: what the user wrote.
            rows: names of the other rows; one may hold a plus sign itself.

        Raises:
            UserError: a member is unknown, comes twice or is alone.
        """
        body = text.removeprefix("rrf:")
        kind: Literal["linear", "rrf"] = "rrf" if body != text else "linear"
        members: list[str] = []
        rest = body
        known = sorted([*rows, PRIOR], key=len, reverse=True)
        while rest:
            found = next((n for n in known if rest == n or rest.startswith(f"{n}+")), None)
            if found is None:
                raise UserError(
                    f"--hybrid {text}: there is no row {rest.split('+')[0]!r}; join rows of this "
                    f"benchmark ({', '.join(rows)}) and {PRIOR}, such as a+b, a+b+{PRIOR} or "
                    "rrf:a+b."
                )
            members.append(found)
            rest = rest[len(found) + 1 :]
        if len(members) < 2 or len(set(members)) < len(members) or len(members) > max(_STEPS):
            raise UserError(
                f"--hybrid {text}: expected two to {max(_STEPS)} different members joined by +."
            )
        return cls(text, tuple(members), kind)

    def settings(self, unit: float = 1.0) -> list[dict[str, Any]]:
        """What cross validation chooses from.

        Args:
            unit: of the weights of the prior, where the kind is `prior`, see `prior_unit`.
        """
        if self.kind == "rrf":
            return [{"k": k} for k in RRF_K]
        if self.kind == "prior":
            return [{"prior": unit * weight} for weight in PRIOR_WEIGHTS]
        return [
            {"scale": scale, "weights": dict(zip(self.members, weights, strict=True))}
            for scale in _SCALES
            for weights in weightings(len(self.members))
        ]


def weightings(members: int) -> list[tuple[float, ...]]:
    """Weights above 0 or 0 that add up to 1, in equal steps; the most even first.

    >>> weightings(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    steps = _STEPS[members]
    found = [
        (*parts, steps - sum(parts))
        for parts in product(range(steps + 1), repeat=members - 1)
        if sum(parts) <= steps
    ]
    found.sort(key=lambda parts: (max(parts) - min(parts), parts))
    return [tuple(part / steps for part in parts) for parts in found]


def to_deploy(
    hybrid: Hybrid,
    final: Mapping[str, Any],
    members: Mapping[str, tuple[str, Mapping[str, Any]]],
    depth: int,
) -> ChosenHybrid:
    """A hybrid's final choice for `dssm search`.

    Args:
        hybrid: what was fused.
        final: what `fuse` tells of it.
        members: by row, which system it is, as `ChosenHybrid` names them, and its parameters.
        depth: titles of each ranking that were joined.
    """
    values = dict(final["values"])
    if "weights" in values:
        values["weights"] = [values["weights"][name] for name in hybrid.members]
    own = [(PRIOR, {}) if name == PRIOR else members[name] for name in hybrid.members]
    facts = {name: value for name, value in final.items() if name != "values"}
    return ChosenHybrid(
        tuple(system for system, _ in own),
        "rrf" if hybrid.kind == "rrf" else "linear",
        values,
        depth,
        tuple(parameters for _, parameters in own),
        {"hybrid": hybrid.name, **facts},
    )


def prior_unit(measured: Measured, log_prior: Values) -> float:
    """The weight by which the prior varies between titles as much as a system's scores do.

    Nobody's judgments take part in it: it puts one grid of weights on the scale of every system.

    Args:
        measured: rankings with scores.
        log_prior: see `fuse`.
    """
    variances = [
        np.var(scores.astype(np.float64)) for _, scores in measured.rankings if len(scores)
    ]
    spread = float(np.std(log_prior))
    return float(np.sqrt(np.mean(variances))) / spread if variances and spread else 0.0


class _Pool(NamedTuple):
    """The titles to fuse for one query, and what each member gives them.

    Attributes:
        columns: places in `RankingTask.titles`, increasing.
        relevant: places in `columns` of the relevant titles, -1 for one not in the pool.
        parts: `(parts, titles)`, what the settings weigh.
    """

    columns: NDArray[np.int64]
    relevant: NDArray[np.int64]
    parts: Values


def fuse(
    hybrid: Hybrid,
    members: Mapping[str, ByHalf],
    log_prior: Values,
    task: RankingTask,
    tune: str,
    depth: int,
    advance: Callable[[int], object] | None = None,
) -> tuple[ByHalf, dict[str, Any]]:
    """Ranks by a hybrid, its weights or k chosen by cross validation.

    Args:
        hybrid: what to fuse how.
        members: rankings of its members but `prior`.
        log_prior: `(titles,)`, of `RankingTask.titles`.
        task: what is ranked.
        tune: the metric to choose by.
        depth: titles of each ranking to keep.
        advance: called with the number of queries done.

    Returns:
        The rankings, and what was chosen, for the result.
    """
    half = next(iter(members.values())).half
    unit = 1.0
    if hybrid.kind == "prior":
        alone = members[hybrid.members[0]].deployed()
        asked = [alone.rankings[row] for row in np.flatnonzero(~task.misspelt)]
        unit = prior_unit(alone._replace(rankings=asked), log_prior)
    settings = hybrid.settings(unit)
    weights = _weights(hybrid, settings)
    relevant = [task.relevant_grades(row) for row in range(len(task.queries))]
    unranked = RelevantRanks.from_lists([np.zeros(len(grades)) for grades in relevant], relevant)
    distinct = all(one.settings[0] is one.settings[1] for one in members.values())
    made: dict[tuple[int, ...], tuple[list[_Pool], list[Values]]] = {}

    def weighed(rankings: Mapping[str, Measured]) -> tuple[list[_Pool], list[Values]]:
        """The members' pools, and the metric by every setting, `(settings, queries)`."""
        key = tuple(map(id, rankings.values()))
        if key not in made:
            listed = [rankings.get(name) for name in hybrid.members]
            pools = [_pool(hybrid, listed, log_prior, task, row) for row in range(len(relevant))]
            places = []
            for pool in pools:
                places.append(_relevant_ranks(_scores(hybrid, pool, weights), pool))
                if advance and not made:
                    advance(1)
            made[key] = (
                pools,
                [
                    to_choose_by(replace(unranked, rank=found), tune, task)
                    for found in np.concatenate(places, axis=1)
                ],
            )
        return made[key]

    # The setting of half h is chosen on the other half, by the members' settings of half h; the
    # final one on all, by the members' final ones.
    tables, by_half = zip(
        *(weighed({name: one.settings[h] for name, one in members.items()}) for h in (0, 1)),
        strict=True,
    )
    _, last = weighed({name: one.deployed() for name, one in members.items()})
    picks = [choose(one, half) for one in by_half]
    if picks[0] is None or picks[1] is None:
        chosen = (0, 0)
        about: dict[str, Any] = {"chosen": f"nothing: too few queries; used {settings[0]}"}
    else:
        chosen = (picks[0][0], picks[1][1])
        about = {
            "chosen": chosen_to_json(settings, chosen, by_half, half, tune),
            "settings_tried": len(settings),
            "final": final_to_json(settings, choose_final(last), last, tune),
        }
    if distinct and chosen[0] == chosen[1]:
        measured = _measured(hybrid, tables[0], weights[chosen[0]], relevant, depth)
        return ByHalf.of_one(measured, half), about
    both = [
        _measured(hybrid, pools, weights[place], relevant, depth)
        for pools, place in zip(tables, chosen, strict=True)
    ]
    return ByHalf((both[0], both[1]), half), about


def _pool(
    hybrid: Hybrid,
    members: Sequence[Measured | None],
    log_prior: Values,
    task: RankingTask,
    row: int,
) -> _Pool:
    rankings = [None if one is None else one.rankings[row] for one in members]
    columns, listed = pool_titles([ranking for ranking in rankings if ranking is not None])
    scores = iter(listed)
    parts = []
    for ranking in rankings:
        own = log_prior[columns] if ranking is None else next(scores)
        if hybrid.kind == "rrf":
            parts.append(ranks(own))
        elif hybrid.kind == "prior":
            parts.append(own)
        else:
            parts += [linear_fusion([fill(own)], [1.0], scale) for scale in _SCALES]
    wanted = task.judged_columns[row][task.judged_grades[row] > 0]
    place = np.searchsorted(columns, wanted).clip(max=max(0, len(columns) - 1))
    inside = columns[place] == wanted if len(columns) else np.zeros(len(wanted), bool)
    return _Pool(columns, np.where(inside, place, -1), np.array(parts))


def _weights(hybrid: Hybrid, settings: Sequence[Mapping[str, Any]]) -> Values:
    """What `_scores` takes for the settings: k `(settings, 1)`, or `(settings, parts)` weights."""
    if hybrid.kind == "rrf":
        return np.array([[setting["k"]] for setting in settings], dtype=np.float64)
    if hybrid.kind == "prior":
        return np.array([[1.0, setting["prior"]] for setting in settings])
    table = np.zeros((len(settings), len(hybrid.members) * len(_SCALES)))
    for row, setting in zip(table, settings, strict=True):
        row[_SCALES.index(setting["scale"]) :: len(_SCALES)] = list(setting["weights"].values())
    return table


def _scores(hybrid: Hybrid, pool: _Pool, weights: Values) -> Values:
    """Fused scores `(settings, titles)`.

    Reference: Cormack, Clarke and Buettcher 2009, sec. 2, for reciprocal ranks.
    """
    if hybrid.kind == "rrf":
        return np.stack([(1 / (k + pool.parts)).sum(axis=0) for (k,) in weights])
    # Sums that differ by rounding only are the same score.
    fused: Values = (weights @ pool.parts).round(12)
    return fused


def _relevant_ranks(scores: Values, pool: _Pool) -> NDArray[np.int64]:
    """Ranks of the relevant titles `(settings, relevant)`, ties in column order, 0 outside."""
    ranks = np.zeros((len(scores), len(pool.relevant)), dtype=np.int64)
    for number, place in enumerate(pool.relevant):
        if place >= 0:
            own = scores[:, place, None]
            above = np.count_nonzero(scores > own, axis=1)
            ranks[:, number] = 1 + above + np.count_nonzero(scores[:, :place] == own, axis=1)
    return ranks


def _measured(
    hybrid: Hybrid,
    pools: Sequence[_Pool],
    weights: Values,
    relevant: Sequence[NDArray[np.float64]],
    depth: int,
) -> Measured:
    ranks, rankings = [], []
    for pool in pools:
        scores = _scores(hybrid, pool, weights[None])
        ranks.append(_relevant_ranks(scores, pool)[0])
        top = top_columns(scores[0], depth)
        rankings.append(
            Ranking(pool.columns[top].astype(np.int32), scores[0][top].astype(np.float32))
        )
    return Measured(RelevantRanks.from_lists(ranks, relevant), rankings)
