"""Data for the interactive part of a report's page: single queries, rankings and tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.reports.formatting import deciding_metric, marked_name, reference_system
from dssm_tf.reports.page import json_element
from dssm_tf.tables.cells import shown_text

MAX_TITLES = 5  # displayed titles per ranking
MAX_RANKED_QUERIES = 300  # queries with displayed titles
MAX_VALUES = 400_000  # queries times systems times metrics
_UNIT = 10_000  # values are stored as integers, in units of 1 / _UNIT
_MAX_LENGTH = 160  # characters of a text


def queries(evaluation: Evaluation) -> str:
    """HTML of the interactive sections, with their data: tests of all pairs, and queries."""
    controls = (files("dssm_tf.reports") / "queries.html").read_text("utf-8")
    return controls + json_element(page_data(evaluation))


def page_data(evaluation: Evaluation) -> dict[str, Any]:
    """The data that the page's script reads; systems, metrics, queries and titles are indices."""
    displayed, ranked = choose_queries(evaluation)
    titles: dict[int, int] = {}  # index in the task: index in the page
    task, rows, metrics = evaluation.task, evaluation.measured_rows, evaluation.compared_metrics
    judged = _by_query(task.judged.sort("grade", descending=True, maintain_order=True), ranked)
    tops = [
        _by_query(run.filter(pl.col("rank") <= MAX_TITLES), ranked)
        for run in evaluation.runs.values()
    ]
    rankings = {
        index: _query_rankings([top.get(query, ()) for top in tops], judged[query], titles)
        for index, query in enumerate(displayed.tolist())
        if query in ranked
    }
    references = [reference_system(evaluation, name) for name in evaluation.systems]
    return {
        "names": [marked_name(evaluation, name) for name in evaluation.systems],
        "marked": [name in evaluation.marked() for name in evaluation.systems],
        "means": evaluation.summary()
        .filter(pl.col("metric").is_in(metrics))
        .group_by("system", maintain_order=True)
        .agg(pl.col("mean").round(6))["mean"]
        .to_list(),
        "metrics": [metric_label(name) for name in metrics],
        "metric": metrics.index(deciding_metric(evaluation)),
        "references": [
            None if name is None else evaluation.systems.index(name) for name in references
        ],
        "measured": evaluation.measured_queries,
        "tests": all_tests(evaluation),
        "queries": [_short(task.queries[query]) for query in displayed],
        "new": np.flatnonzero(evaluation.new_queries[displayed]).tolist(),
        "unit": _UNIT,
        "values": [
            [
                np.rint(row.values(metric)[displayed] * _UNIT).astype(int).tolist()
                for metric in metrics
            ]
            for row in rows
        ],
        "rankings": rankings,
        "titles": [_short(task.titles[column]) for column in titles],
    }


def choose_queries(evaluation: Evaluation) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Selects the queries whose values the page contains, and those whose titles it contains.

    Queries are selected in turn by the largest differences of the two systems that the page opens
    with, and by the best and worst values of each system; then at random. Ties are in random order.

    Returns:
        Two arrays of row indices, each in ascending order.
    """
    candidates = np.random.default_rng(0).permutation(np.flatnonzero(evaluation.task.has_relevant))
    metric, names = deciding_metric(evaluation), evaluation.systems
    values = {name: evaluation.values[name][metric][candidates] for name in names}
    best = max(names, key=lambda name: evaluation.mean(name, metric))
    gains = np.zeros_like(values[best])
    if other := reference_system(evaluation, best):
        gains = values[best] - values[other]
    criteria = [sign * value for value in (gains, *values.values()) for sign in (1, -1)]
    orders = [
        candidates[np.argsort(-value, kind="stable")[:MAX_RANKED_QUERIES]] for value in criteria
    ]
    ranked = [*dict.fromkeys(np.stack(orders).T.ravel().tolist())][:MAX_RANKED_QUERIES]
    limit = max(len(ranked), MAX_VALUES // (len(values) * len(evaluation.compared_metrics)))
    queries = [*dict.fromkeys([*ranked, *candidates.tolist()])]
    return np.sort(queries[:limit]), np.sort(ranked)


def all_tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Compares every two systems by each metric, over all queries that means include.

    Returns:
        Per metric: `gained[a][b]`, the number of queries on which a is better than b, and
        `p[a][b]`, the adjusted p of the table; None if the table did not test the pair.
    """
    tests = []
    p_values = {
        (test.metric, *pair): float(f"{test.p_adjusted:.3g}")
        for test in evaluation.comparisons
        for pair in permutations((test.a, test.b))
    }
    for metric in evaluation.compared_metrics:
        rows = [evaluation.values[name][metric] for name in evaluation.systems]
        values = np.stack(rows)[:, evaluation.task.has_relevant]
        gained = [(system > values).sum(axis=1).tolist() for system in values]
        names = evaluation.systems
        p = [[p_values.get((metric, a, b)) for b in names] for a in names]
        tests.append({"gained": gained, "p": p})
    return tests


def _short(text: str) -> str:
    """A text, truncated to `_MAX_LENGTH` characters."""
    return shown_text(text, _MAX_LENGTH)


def _by_query(frame: pl.DataFrame, queries: Collection[int]) -> dict[int, list[dict[str, Any]]]:
    """The rows of the given queries, by query, in the order of the frame."""
    return frame.filter(pl.col("query").is_in(queries)).rows_by_key("query", named=True)


def _query_rankings(
    tops: Sequence[Sequence[Mapping[str, Any]]],
    judged: Sequence[Mapping[str, Any]],
    titles: dict[int, int],
) -> dict[str, Any]:
    """A query's first titles by system, the grades of its titles, and its best relevant titles.

    Args:
        tops: the first rows of the query in the run of each system.
        judged: the rows of the query in `RankingTask.judged`, best first.
        titles: index in the page by index in the task. New titles are added.
    """

    def page_index(row: Mapping[str, Any]) -> int:
        return titles.setdefault(row["title"], len(titles))

    top = [list(map(page_index, rows)) for rows in tops]
    relevant = [row for row in judged if row["grade"]]
    return {
        "top": top,
        "relevant": [[page_index(row), row["grade"]] for row in relevant[:MAX_TITLES]],
        "more": max(0, len(relevant) - MAX_TITLES),
        "grades": {titles[row["title"]]: row["grade"] for row in judged if row["title"] in titles},
    }
