"""`dssm interleave`: compares two rankings by clicks on interleaved lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.terminal import RESULT, say

if TYPE_CHECKING:
    from dssm_tf.evaluation.interleaving import InterleavingResult


def interleave(
    *log: AnyPath,
    unit: Literal["session", "query", "list"] | None = None,
    resamples: Annotated[
        int, Parameter(validator=validators.Number(gte=100, lte=1_000_000))
    ] = 10_000,
    seed: int = 0,
    encoding: str = "utf-8",
    columns: str = "",
) -> None:
    """Compare two rankings by the clicks of users on interleaved lists.

    `dssm_tf.team_draft` makes the lists. The log has one row per displayed title, with the columns
    list_id, team and clicks, and optionally session_id, query and doc_id. Prints the winner, the
    95 % interval (bootstrap) and the p-value (sign test).

        dssm interleave shown.tsv

    Args:
        log: tables (TSV, CSV, JSONL, Parquet); all titles of a list have the same list_id; team is
            the name of a title's ranking, and is empty for titles whose clicks do not count
        unit: lists of one session, or of one query, count as one observation; by default session,
            or list if the log has no session_id
        resamples: number of bootstrap samples
        seed: seed of the bootstrap
        encoding: encoding of the files, such as cp1252
        columns: names of the columns in the files, such as list_id=search_id,team=origin

    Raises:
        UserError: a file cannot be read or has a malformed row, or there are not two teams.
    """
    from dssm_tf.evaluation.interleaving import compare_teams
    from dssm_tf.tables.interleaved_lists import read_interleaved_lists
    from dssm_tf.tables.layout import Layout, parse_columns

    if not log:
        raise UserError(
            "there is no log; give a table of displayed titles with their teams and clicks."
        )
    layout = Layout(encoding, columns=parse_columns(columns))
    comparison = compare_teams(
        read_interleaved_lists([*map(Path, log)], layout), unit, resamples, seed
    )
    say(*_lines(comparison), level=RESULT)


def _lines(comparison: InterleavingResult) -> list[str]:
    """The result as sentences, about the team that wins more lists."""
    lead = int(comparison.wins[1] > comparison.wins[0])
    leader, other = comparison.teams[lead], comparison.teams[1 - lead]
    wins, losses = comparison.wins[lead], comparison.wins[1 - lead]
    unit_wins, unit_losses = comparison.unit_wins[lead], comparison.unit_wins[1 - lead]
    preference, (low, high) = comparison.preference, comparison.ci95
    if lead:
        preference, low, high = -preference, -high, -low
    units = {"session": "sessions", "query": "queries", "list": "lists"}[comparison.unit]
    winner = comparison.winner
    return [
        f"{comparison.lists:,} lists, {comparison.clicked_lists:,} of them with a click, of "
        f"{comparison.units:,} {units}.",
        f"{leader} wins {wins:,} lists, {other} wins {losses:,}; "
        f"{comparison.clicked_lists - wins - losses:,} are ties.",
        f"Preference for {leader}: {preference:+.3f}, 95 % interval {low:+.3f} to {high:+.3f} "
        f"(bootstrap over {units}; 0 is none, +0.5 if {leader} wins every list).",
        f"p = {comparison.p:.2g} (sign test over {units}: {leader} wins {unit_wins:,}, {other} "
        f"wins {unit_losses:,}).",
        *(f"Warning: {warning}" for warning in comparison.warnings),
        f"{winner} is better than {other if winner == leader else leader}."
        if winner
        else f"No winner: the difference between {leader} and {other} may be chance.",
    ]
