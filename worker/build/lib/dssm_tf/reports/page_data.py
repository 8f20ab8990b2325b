"""What `report.html` carries for its drawings: tests, values, rankings, made small."""

from __future__ import annotations

import base64
from collections import defaultdict
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.evaluation import Evaluation, Row
from dssm_tf.evaluation.metrics import metric_label

TITLES = 5  # titles shown of each ranking
RANKED_QUERIES = 300  # queries whose titles are shown
VALUES = 400_000  # queries times systems times metrics; two bytes each
_UNIT = 10_000  # parts of 1 that values are rounded to
_EACH = 8  # best and worst queries a system that are sure of a place
_LONGEST = 160  # characters of a text


def page_data(evaluation: Evaluation) -> dict[str, Any]:
    """What the page's script draws from; JSON without NaN.

    Systems, metrics, queries and titles are named by their places in lists.
    """
    shown = shown_queries(evaluation)
    ranked = ranked_queries(evaluation)
    place = {int(query): number for number, query in enumerate(shown)}
    titles: dict[int, int] = {}  # column of the task: place in the page
    rankings = {
        str(place[query]): _rankings_of(evaluation, query, titles)
        for query in ranked
        if query in place
    }
    task, rows = evaluation.task, evaluation.measured_rows

    def means(row: Row) -> list[float]:
        return [round(float(np.mean(row.means(metric))), 6) for metric in evaluation.metrics]

    return {
        "systems": [{"name": row.name, "means": means(row)} for row in rows],
        "metrics": [metric_label(name) for name in evaluation.metrics],
        "metric": evaluation.metrics.index(evaluation.deciding_metric),
        "references": [
            None if one is None else evaluation.systems.index(one)
            for one in map(evaluation.reference, evaluation.systems)
        ],
        "measured": evaluation.measured_queries,
        "tests": all_tests(evaluation),
        "queries": [shorten(task.queries[query]) for query in shown],
        "new": np.flatnonzero(evaluation.new_queries[shown]).tolist(),
        "unit": _UNIT,
        "values": [
            [_packed(row.values(metric)[shown]) for metric in evaluation.metrics] for row in rows
        ],
        "rankings": rankings,
        "titles": [shorten(task.titles[column]) for column in titles],
    }


def shown_queries(evaluation: Evaluation) -> NDArray[np.int64]:
    """Rows of the queries whose values the page carries, increasing: all if they are few enough.

    Of more, those with rankings, and others at even distances.
    """
    counted = np.flatnonzero(evaluation.counted)
    room = max(RANKED_QUERIES, VALUES // (len(evaluation.measured_rows) * len(evaluation.metrics)))
    if len(counted) <= room:
        return counted
    ranked = np.array(ranked_queries(evaluation), dtype=np.int64)
    others = np.setdiff1d(counted, ranked)
    wanted = room - len(ranked)
    even = others[(np.arange(wanted) * (len(others) / max(1, wanted))).astype(np.int64)]
    return np.sort(np.concatenate([ranked, even]))


def ranked_queries(evaluation: Evaluation) -> list[int]:
    """Rows of the queries whose titles the page carries: every one if they are few.

    Of more, the best and worst of each system and of their mean first (equals are drawn by lot),
    and what the page opens with; then for all pairs of systems in turn the next greatest gain and
    loss.
    """
    counted = np.flatnonzero(evaluation.counted)
    if len(counted) <= RANKED_QUERIES:
        return [int(query) for query in counted]
    metric = evaluation.deciding_metric
    values = np.stack([row.values(metric)[counted] for row in evaluation.measured_rows])
    wishes: list[tuple[float, float, int]] = []  # turn, minus the difference, query
    best = int(np.argmax(values.mean(axis=1)))
    names = evaluation.systems
    reference = evaluation.reference(names[best])
    other = best if reference is None else names.index(reference)
    opening = values[best] - values[other]
    lots = np.random.default_rng(0).permutation(len(counted))  # by which equals stand
    for own in (*values, values.mean(axis=0), opening):
        order = lots[np.argsort(own[lots], kind="stable")]
        for chosen in (order[:_EACH], order[::-1][:_EACH]):
            wishes += [(float(n - _EACH), 0.0, int(query)) for n, query in enumerate(chosen)]
    for a in values:
        for b in values:
            order = lots[np.argsort((b - a)[lots], kind="stable")][:RANKED_QUERIES]
            wishes += [
                (float(turn), float(b[query] - a[query]), int(query))
                for turn, query in enumerate(order)
                if a[query] > b[query]
            ]
    rest = lots.tolist()  # where systems hardly differ
    chosen_places = dict.fromkeys([*(query for _, _, query in sorted(wishes)), *rest])
    return sorted(int(counted[query]) for query in list(chosen_places)[:RANKED_QUERIES])


def all_tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Differences of all pairs, a metric an entry, with the tests that the table made of them.

    Returns:
        For each metric, lists over pairs `(a, b)`, a before b, in the order
        (0, 1), (0, 2), ..., (1, 2), ...: `difference` (mean of a - b over the
        counted queries), `p` (adjusted; None where the pair was not tested), and how many
        queries `gained` and `lost`, that is, are better in a and in b.
    """
    tested = {(one.metric, frozenset((one.a, one.b))): one for one in evaluation.comparisons}
    names = evaluation.systems
    counted = np.flatnonzero(evaluation.counted)
    tests = []
    for metric in evaluation.metrics:
        values = np.stack([row.values(metric)[counted] for row in evaluation.measured_rows], axis=1)
        found: dict[str, list[float]] = defaultdict(list)
        for a in range(values.shape[1] - 1):
            differences = values[:, a, None] - values[:, a + 1 :]
            found["difference"] += differences.mean(axis=0).round(6).tolist()
            found["gained"] += (differences > 0).sum(axis=0).tolist()
            found["lost"] += (differences < 0).sum(axis=0).tolist()
        pairs = [tested.get((metric, frozenset(pair))) for pair in combinations(names, 2)]
        p = [None if one is None else float(f"{one.p_adjusted:.3g}") for one in pairs]
        tests.append({**found, "p": p})
    return tests


def shorten(text: str) -> str:
    """A text as the page shows it.

    >>> shorten("a hat"), len(shorten("hat " * 99))
    ('a hat', 160)
    """
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _rankings_of(evaluation: Evaluation, query: int, titles: dict[int, int]) -> dict[str, Any]:
    """First titles of every system, grades of those judged, and the best relevant titles."""
    task = evaluation.task

    def place(column: int) -> int:
        return titles.setdefault(int(column), len(titles))

    columns = [
        [int(column) for column in evaluation.rankings[system][query].columns[:TITLES]]
        for system in evaluation.systems
    ]
    judged = sorted(
        zip(task.judged_grades[query], task.judged_columns[query], strict=True),
        key=lambda pair: (-pair[0], pair[1]),
    )
    relevant = [(float(grade), int(column)) for grade, column in judged if grade > 0]
    listed = {column for own in columns for column in own}
    return {
        "top": [[place(column) for column in own] for own in columns],
        "relevant": [[place(column), grade] for grade, column in relevant[:TITLES]],
        "more": max(0, len(relevant) - TITLES),
        "grades": {
            str(place(column)): float(grade) for grade, column in judged if column in listed
        },
    }


def _packed(values: NDArray[np.float64]) -> str:
    """Values from 0 to 1 as base64 of two bytes each, the low one first."""
    return base64.b64encode(np.rint(values * _UNIT).astype("<u2").tobytes()).decode("ascii")
