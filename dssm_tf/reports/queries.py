"""Query by query: what a report's page lets a person choose and see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.page import embedded
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.reports.formatting import deciding_metric, reference

TITLES = 5  # titles shown of each ranking
RANKED_QUERIES = 300  # queries whose titles are shown
VALUES = 400_000  # queries times systems times metrics
_UNIT = 10_000  # parts of 1 that values are rounded to
_LONGEST = 160  # letters of a text


def queries(evaluation: Evaluation) -> str:
    """The part of the page that its script draws: the tests of all pairs, and the queries."""
    controls = (files("dssm_tf.reports") / "queries.html").read_text("utf-8")
    return controls + embedded(page_data(evaluation))


def page_data(evaluation: Evaluation) -> dict[str, Any]:
    """What the page's script draws from; systems, metrics, queries, titles by their places."""
    shown, ranked = choose_queries(evaluation)
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
    references = [reference(evaluation, name) for name in evaluation.systems]
    return {
        "names": evaluation.systems,
        "means": evaluation.summary()
        .group_by("system", maintain_order=True)
        .agg(pl.col("mean").round(6))["mean"]
        .to_list(),
        "metrics": [metric_label(name) for name in evaluation.metrics],
        "metric": evaluation.metrics.index(deciding_metric(evaluation)),
        "references": [
            None if name is None else evaluation.systems.index(name) for name in references
        ],
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


def choose_queries(evaluation: Evaluation) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the queries whose values the page has, and of those whose titles it has, increasing.

    First come, in turn, those on which the two systems that the page opens with differ most, and
    the best and the worst of each system; then others at random. Equals are in random order, too.
    """
    counted = np.random.default_rng(0).permutation(np.flatnonzero(evaluation.task.counted))
    metric, names = deciding_metric(evaluation), evaluation.systems
    values = {name: evaluation.values[name][metric][counted] for name in names}
    best = max(names, key=lambda name: evaluation.mean(name, metric))
    gains = np.zeros_like(values[best])
    if other := reference(evaluation, best):
        gains = values[best] - values[other]
    wanted = [sign * one for one in (gains, *values.values()) for sign in (1, -1)]
    orders = [counted[np.argsort(-one, kind="stable")[:RANKED_QUERIES]] for one in wanted]
    first = [*dict.fromkeys(np.stack(orders).T.ravel().tolist())][:RANKED_QUERIES]
    room = max(len(first), VALUES // (len(values) * len(evaluation.metrics)))
    every = [*dict.fromkeys([*first, *counted.tolist()])]
    return np.sort(every[:room]), np.sort(first)


def all_tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Of each metric, what every two systems gain over each other, over all queries that count.

    Returns:
        `gained[a][b]`, how many queries are better in a than in b, and `p[a][b]`, that of the
        table after its adjustment; None if the table did not test the pair.
    """
    found = []
    tested = {
        (one.metric, *pair): float(f"{one.p_adjusted:.3g}")
        for one in evaluation.comparisons
        for pair in permutations((one.a, one.b))
    }
    for metric in evaluation.metrics:
        rows = [evaluation.values[name][metric] for name in evaluation.systems]
        values = np.stack(rows)[:, evaluation.task.counted]
        gained = [(one > values).sum(axis=1).tolist() for one in values]
        names = evaluation.systems
        p = [[tested.get((metric, a, b)) for b in names] for a in names]
        found.append({"gained": gained, "p": p})
    return found


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
