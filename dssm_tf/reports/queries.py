"""Query by query: what a report's page lets a person choose and see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.page import embedded
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import metric_label

TITLES = 5  # titles shown of each ranking
RANKED_QUERIES = 300  # queries whose titles are shown
VALUES = 400_000  # queries times systems times metrics
_UNIT = 10_000  # parts of 1 that values are rounded to
_EACH = 8  # best and worst queries a system that are sure of a place
_LONGEST = 160  # letters of a text


def queries(evaluation: Evaluation) -> str:
    """The part of the page that its script draws: the tests of all pairs, and the queries."""
    controls = (files("dssm_tf.reports") / "queries.html").read_text("utf-8")
    return controls + embedded(page_data(evaluation))


def page_data(evaluation: Evaluation) -> dict[str, Any]:
    """What the page's script draws from; systems, metrics, queries, titles by their places."""
    shown = shown_queries(evaluation)
    ranked = set(ranked_queries(evaluation))
    titles: dict[int, int] = {}  # column of the task: place in the page
    task, rows = evaluation.task, evaluation.measured_rows
    judged = _by_query(task.judged.sort("grade", descending=True, maintain_order=True), ranked)
    tops = [
        _by_query(run.filter(pl.col("rank") <= TITLES), ranked) for run in evaluation.runs.values()
    ]
    rankings = {
        place: _rankings_of([top.get(query, ()) for top in tops], judged[query], titles)
        for place, query in enumerate(shown.tolist())
        if query in ranked
    }
    references = map(evaluation.reference, evaluation.systems)
    return {
        "systems": [
            {
                "name": row.name,
                "means": [round(evaluation.mean(row.name, one), 6) for one in evaluation.metrics],
            }
            for row in rows
        ],
        "metrics": [metric_label(name) for name in evaluation.metrics],
        "metric": evaluation.metrics.index(evaluation.deciding_metric),
        "references": [one and evaluation.systems.index(one) for one in references],
        "measured": evaluation.measured_queries,
        "tests": all_tests(evaluation),
        "queries": [_short(task.queries[query]) for query in shown],
        "new": np.flatnonzero(evaluation.new_queries[shown]).tolist(),
        "unit": _UNIT,
        "values": [
            [
                np.rint(row.values(metric)[shown] * _UNIT).astype(int).tolist()
                for metric in evaluation.metrics
            ]
            for row in rows
        ],
        "rankings": rankings,
        "titles": [_short(task.titles[column]) for column in titles],
    }


def shown_queries(evaluation: Evaluation) -> NDArray[np.int64]:
    """Rows of the queries whose values the page has, increasing.

    All if they are few enough; of more, those with rankings, and others at even distances.
    """
    counted = np.flatnonzero(evaluation.counted)
    room = max(RANKED_QUERIES, VALUES // (len(evaluation.measured_rows) * len(evaluation.metrics)))
    if len(counted) <= room:
        return counted
    ranked = ranked_queries(evaluation)
    others = np.setdiff1d(counted, ranked)
    even = np.linspace(0, len(others) - 1, room - len(ranked)).astype(int)
    return np.sort([*ranked, *others[even]])


def ranked_queries(evaluation: Evaluation) -> list[int]:
    """Rows of the queries whose titles the page has: all if they are few.

    Of more, the best and worst of each system and what the page opens with, then those on which
    any two systems differ most, a pair after the other. Equals are drawn by lot.
    """
    counted = np.flatnonzero(evaluation.counted)
    lots = np.random.default_rng(0).permutation(counted)
    metric, names = evaluation.deciding_metric, evaluation.systems
    values = [evaluation.values[name][metric][lots] for name in names]
    best = max(names, key=lambda name: evaluation.mean(name, metric))
    reference = evaluation.reference(best) or best
    opening = values[names.index(best)] - values[names.index(reference)]

    def in_turn(numbers: list[NDArray[np.float64]], turns: int) -> list[int]:
        orders = [lots[np.argsort(-one, kind="stable")[:turns]] for one in numbers]
        return [int(query) for query in np.stack(orders).T.ravel()]

    sure = [sign * one for one in (opening, *values) for sign in (1, -1)]
    pairs = [a - b for a, b in product(values, values)]
    chosen = dict.fromkeys(in_turn(sure, _EACH) + in_turn(pairs, RANKED_QUERIES))
    return sorted([*chosen][:RANKED_QUERIES])


def all_tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Differences of all pairs, a metric an entry, with the tests that the table made of them.

    Returns:
        For each metric, lists over pairs `(a, b)`, a before b, in the order
        (0, 1), (0, 2), ..., (1, 2), ...: `difference` (mean of a - b over the
        counted queries), `p` (adjusted; None where the pair was not tested), and how many
        queries `gained` and `lost`, that is, are better in a and in b.
    """
    tested = {(one.metric, frozenset((one.a, one.b))): one for one in evaluation.comparisons}
    tests = []
    for metric in evaluation.metrics:
        found: dict[str, list[float | None]] = {"difference": [], "gained": [], "lost": [], "p": []}
        for a, b in combinations(evaluation.systems, 2):
            differences = np.subtract(*(evaluation.values[one][metric] for one in (a, b)))
            differences = differences[evaluation.counted]
            test = tested.get((metric, frozenset((a, b))))
            found["difference"].append(round(float(differences.mean()), 6))
            found["gained"].append(int((differences > 0).sum()))
            found["lost"].append(int((differences < 0).sum()))
            found["p"].append(None if test is None else float(f"{test.p_adjusted:.3g}"))
        tests.append(found)
    return tests


def _short(text: str) -> str:
    """A text as the page shows it."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _by_query(frame: pl.DataFrame, queries: Collection[int]) -> dict[int, list[dict[str, Any]]]:
    """The rows of some queries, in the order of the frame."""
    return frame.filter(pl.col("query").is_in(queries)).rows_by_key("query", named=True)


def _rankings_of(
    tops: Sequence[Sequence[Mapping[str, Any]]],
    judged: Sequence[Mapping[str, Any]],
    titles: dict[int, int],
) -> dict[str, Any]:
    """First titles of every system, grades of those judged, and the best relevant titles.

    Args:
        tops: rows of the query in the run of each system.
        judged: its rows in `RankingTask.judged`, best first.
        titles: place in the page by place in the task; grows.
    """

    def place(row: Mapping[str, Any]) -> int:
        return titles.setdefault(row["title"], len(titles))

    top = [list(map(place, rows)) for rows in tops]
    relevant = [row for row in judged if row["grade"]]
    return {
        "top": top,
        "relevant": [[place(row), row["grade"]] for row in relevant[:TITLES]],
        "more": max(0, len(relevant) - TITLES),
        "grades": {titles[row["title"]]: row["grade"] for row in judged if row["title"] in titles},
    }
