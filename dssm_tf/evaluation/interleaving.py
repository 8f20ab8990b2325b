"""Compares two rankings by the clicks of users on interleaved lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col
from scipy import stats

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.significance import SIGNIFICANCE_LEVEL
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.interleaved_lists import FILE

UNITS = {"session": "session_id", "query": "query", "list": "list_id"}
"""Units that are independent of each other, and the column of each."""
RESAMPLES = 10_000
_BALANCE_LEVEL = 0.001


@dataclass(frozen=True)
class InterleavingResult:
    """The result of a comparison of two teams, the rankings that interleaved lists come from.

    Attributes:
        teams: their names, `a` and `b`.
        lists: number of lists with a title of a team.
        clicked_lists: number of lists with a click on a title of a team.
        wins: number of lists that `a` won, and that `b` won, by more clicked titles.
        unit: the kind of observation, a key of `UNITS`.
        units: number of units with a click.
        unit_wins: number of units with more lists won by `a`, and with more won by `b`.
        preference: `(wins of a - wins of b) / (2 * clicked_lists)`, from -0.5 to 0.5.
        ci95: its 95 % interval.
        p: p-value of the sign test over units, two-sided.
        warnings: sentences about properties of the log that make the result unreliable.
    """

    teams: tuple[str, str]
    lists: int
    clicked_lists: int
    wins: tuple[int, int]
    unit: str
    units: int
    unit_wins: tuple[int, int]
    preference: float
    ci95: tuple[float, float]
    p: float
    warnings: tuple[str, ...] = ()

    @property
    def winner(self) -> str | None:
        """The team that users prefer; None if the tests do not agree on one.

        p must be below 0.05, the interval must not contain 0, and both must favor the same team.
        """
        low, high = self.ci95
        won, lost = self.unit_wins
        if self.p < SIGNIFICANCE_LEVEL and low > 0 and won > lost:
            return self.teams[0]
        if self.p < SIGNIFICANCE_LEVEL and high < 0 and won < lost:
            return self.teams[1]
        return None


def compare_teams(
    rows: pl.DataFrame, unit: str | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> InterleavingResult:
    """Compares the two teams of interleaved lists by their clicks.

    A list is won by the team with more clicked titles; several clicks on a title count once. Lists
    without a click are left out. The preference is that of Chapelle et al., with
    ties as half a win: `(wins of a + ties / 2) / clicked_lists - 1/2`.

    Lists of one unit, such as the session of a user, depend on each other. So the sign test counts
    each unit once, for the team that won more of its lists, and the bootstrap draws units.

    Args:
        rows: result of `read_interleaved_lists`; rows with an empty team do not count.
        unit: a key of `UNITS`; by default `session`, or `list` without sessions.
        resamples: number of bootstrap samples.
        seed: seed of the bootstrap.

    Raises:
        UserError: there are not exactly two teams, no title has a click, or the log lacks the unit.

    Reference: Radlinski, Kurup and Joachims 2008; Chapelle, Joachims, Radlinski and Yue 2012,
        "Large-scale validation and analysis of interleaved search evaluation".
    """
    if unit is None:
        unit = "list" if (rows["session_id"] == "").all() else "session"
    team_rows = rows.filter(col.team != "")
    teams = _teams(team_rows)
    unknown = team_rows.filter(col(UNITS[unit]) == "")
    if len(unknown):
        row = unknown.row(0, named=True)
        raise UserError(
            f"{row[FILE]}:{row[LINE]} has no {UNITS[unit]}, which --unit {unit} needs in every "
            "row; fill it in, or choose --unit list."
        )
    a = col.team == teams[0]
    lists = team_rows.group_by("list_id").agg(
        unit=col(UNITS[unit]).first(),
        clicked=(col.clicks > 0).any(),
        more_titles=(a.sum().cast(pl.Int64) - (~a).sum().cast(pl.Int64)),
        more_clicks=((a & (col.clicks > 0)).sum().cast(pl.Int64))
        - ((~a & (col.clicks > 0)).sum().cast(pl.Int64)),
    )
    clicked = lists.filter("clicked").with_columns(sign=col.more_clicks.sign())
    if not len(clicked):
        raise UserError("no title of a team has a click, so no team can win.")
    units = clicked.group_by("unit").agg(lists=pl.len().cast(pl.Int64), sum=col.sign.sum())
    wins = _signs(clicked["sign"])
    unit_wins = _signs(units["sum"])
    return InterleavingResult(
        teams,
        len(lists),
        len(clicked),
        wins,
        unit,
        len(units),
        unit_wins,
        (wins[0] - wins[1]) / (2 * len(clicked)),
        _interval(units.select("sum", "lists").to_numpy(), resamples, seed),
        sign_test(*unit_wins),
        tuple(_warnings(lists, teams)),
    )


def sign_test(wins: int, losses: int) -> float:
    """The p-value of the two-sided sign test, without ties: `P(|X - n/2| >= |wins - n/2|)`.

    `X` has the binomial distribution with `n = wins + losses` and probability 1/2. Without wins and
    losses, p is 1.
    """
    if not wins + losses:
        return 1.0
    return float(stats.binomtest(wins, wins + losses).pvalue)


def _teams(rows: pl.DataFrame) -> tuple[str, str]:
    """The names of the two teams, in alphabetical order."""
    names = rows["team"].unique().sort().to_list()
    if len(names) == 2:
        return names[0], names[1]
    first = rows.unique("team", keep="first", maintain_order=True).head(4)
    examples = ", ".join(
        f"{row['team']!r:.40} ({row[FILE]}:{row[LINE]})" for row in first.iter_rows(named=True)
    )
    raise UserError(
        f"the column team names {len(names):,} teams: {examples or 'none'}; expected two, and an "
        "empty cell for titles whose clicks do not count, such as ads."
    )


def _signs(values: pl.Series) -> tuple[int, int]:
    """The number of positive and of negative values."""
    return int((values > 0).sum()), int((values < 0).sum())


def _interval(units: NDArray[np.int64], resamples: int, seed: int) -> tuple[float, float]:
    """The 95 % percentile interval of the preference, by a bootstrap over units.

    Units with equal values are drawn together, by a multinomial distribution, so that time and
    memory depend on the number of distinct values.

    Args:
        units: `(units, 2)`, lists won by `a` minus lists won by `b`, and number of lists.
        resamples: number of bootstrap samples.
        seed: seed of the samples.
    """
    values, counts = np.unique(units, axis=0, return_counts=True)
    random = np.random.default_rng(seed)
    draws = random.multinomial(len(units), counts / len(units), size=resamples)
    sums = draws @ values.astype(np.float64)
    low, high = np.quantile(sums[:, 0] / (2 * sums[:, 1]), [0.025, 0.975])
    return float(low), float(high)


def _warnings(lists: pl.DataFrame, teams: tuple[str, str]) -> list[str]:
    """Sentences about lists that differ from those of team draft."""
    result = []
    unequal = int((lists["more_titles"].abs() > 1).sum())
    if unequal:
        result.append(
            f"In {unequal:,} of {len(lists):,} lists, one team has at least two titles more than "
            "the other, which team draft never does; log every displayed title, also those "
            "without a click."
        )
    longer = _signs(lists["more_titles"].clip(-1, 1))
    if not unequal and sign_test(*longer) < _BALANCE_LEVEL:
        result.append(
            f"The additional title of lists of odd length is from {teams[0]} in {longer[0]:,} and "
            f"from {teams[1]} in {longer[1]:,} lists; the coin does not seem to be fair."
        )
    return result
