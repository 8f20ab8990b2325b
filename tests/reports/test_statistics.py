"""Grades of first titles, the cross table of two systems, and lengths.

Reference: Shen et al. 2014, fig. 3 and table 7.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.report import text as report
from dssm_tf.reports.statistics import first_title_labels, labels
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import TableRanker
from tests.reference import first_titles as reference

TITLES = [f"title {number}" for number in range(9)]
LABELS = {"2": 2.0, "1": 1.0, "0": 0.0, "not judged": None}
SYSTEMS = ("clsm", "dssm", "bm25")
QUERIES = 200


def judged_and_ranked():
    """Grades of four titles per query, one of them 2, and random rankings per system.

    With a probability that depends on the system, a ranking begins with the title of grade 2.
    """
    random = np.random.default_rng(0)
    judged, ranked = {}, {name: {} for name in SYSTEMS}
    for number in range(QUERIES):
        chosen = random.permutation(TITLES)[:4].tolist()
        judged[f"query {number}"] = dict(zip(chosen, [2.0, 1.0, 1.0, 0.0], strict=True))
        for system, probability in zip(SYSTEMS, (0.5, 0.2, 0.0), strict=True):
            order = random.permutation(TITLES).tolist()
            if random.random() < probability:
                order.sort(key=lambda title: title != chosen[0])
            ranked[system][f"query {number}"] = order
    return judged, ranked


JUDGED, RANKED = judged_and_ranked()


def ranking(titles: list[list[int]]) -> pl.DataFrame:
    """A run from title indices, one list per query, best first."""
    rows = [
        (query, title, -float(rank), rank)
        for query, query_titles in enumerate(titles)
        for rank, title in enumerate(query_titles, 1)
    ]
    return pl.DataFrame(rows, ["query", "title", "score", "rank"], orient="row")


@pytest.fixture(scope="module")
def result() -> Evaluation:
    """The evaluation of `RANKED`, with one more query, which has no relevant title."""
    ids = {title: f"d{number}" for number, title in enumerate(TITLES)}
    judgments = [Judgment("left", "left out", "d0", TITLES[0], 0.0)]
    for query, grades in JUDGED.items():
        judgments += [Judgment(query, query, ids[t], t, grade) for t, grade in grades.items()]
    task = RankingTask(judgments, [CorpusTitle(ids[title], title) for title in TITLES])

    def run(system: str) -> pl.DataFrame:
        orders = {"left out": TITLES} | RANKED[system]
        return ranking([[task.titles.index(t) for t in orders[query]] for query in task.queries])

    value = [np.nan if query == "left out" else 0.5 for query in task.queries]
    values = pl.DataFrame({"ndcg@1": value})
    rows = [Row(name, "run", [SeedResult(None, values, run(name))]) for name in SYSTEMS]
    return Evaluation(task, ("ndcg@1",), rows, comparisons=[], against=())


def table_under(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a line that begins with `heading`."""
    lines = text[text.index(heading) :].splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def test_first_titles_are_counted_by_grade_over_the_queries_with_a_relevant_title(result):
    first = first_title_labels(result.task, result.runs)
    assert labels(result.task, first) == list(LABELS)
    header, *rows = table_under(report(result)[0], "## Grade of the first title")
    assert header == ["System", *LABELS]
    for index, system in enumerate(SYSTEMS):
        percentages = [
            reference.percentage(JUDGED, RANKED[system], grade) for grade in LABELS.values()
        ]
        assert sum(percentages) == pytest.approx(100)
        assert rows[index] == [system, *(f"{percentage:.1f} %" for percentage in percentages)]
        counts = [round(percentage * QUERIES / 100) for percentage in percentages]
        assert [first[system].count(label) for label in LABELS] == counts


@pytest.mark.parametrize(("down", "across"), [("clsm", "dssm"), ("dssm", "clsm"), ("bm25", "clsm")])
def test_the_cross_table_counts_the_queries_with_each_pair_of_grades(result, down, across):
    expected = [
        [reference.count_pairs(JUDGED, RANKED[down], RANKED[across], a, b) for b in LABELS.values()]
        for a in LABELS.values()
    ]
    assert expected != np.transpose(expected).tolist()  # the order of the systems matters
    rows = [
        replace(row, seeds=[replace(row.seeds[0], values=row.seeds[0].values * factor)])
        for row in result.rows
        for factor in [1.0 if row.name == down else 0.5]
    ]
    # The table crosses the best system and the first system of `against`.
    text = report(replace(result, rows=rows, against=(across,)))[0]
    caption = rf"grade of the first title of {down} \(down\) and {across} \(across\):"
    assert re.search(caption, text)
    header, *rows = table_under(text, "Queries by the grade of the first title")
    assert header == ["", *(f"{across}: {label}" for label in LABELS)]
    assert [row[0] for row in rows] == [f"{down}: {label}" for label in LABELS]
    assert [list(map(int, row[1:])) for row in rows] == expected


def test_first_titles_of_two_queries_by_hand():
    # The first titles of query 1: grade 2 against not judged; of query 2: 2 against 1.
    task = RankingTask(
        [
            Judgment("q1", "one", "a", "A", 2.0),
            Judgment("q2", "two", "a", "A", 2.0),
            Judgment("q2", "two", "b", "B", 1.0),
        ],
        [CorpusTitle("a", "A"), CorpusTitle("b", "B")],
    )
    index = {title: i for i, title in enumerate(task.titles)}
    first, second = (task.queries.index(query) for query in ("one", "two"))
    runs = {
        "x": ranking([[index["A"], index["B"]]] * 2),
        "y": ranking([[index["B"], index["A"]]] * 2),
        "z": ranking([[index["A"]] if query == first else [] for query in range(2)]),
    }
    by_system = first_title_labels(task, runs)
    assert [[by_system[name][query] for query in (first, second)] for name in "xyz"] == [
        ["2", "2"], ["not judged", "1"], ["2", "nothing ranked"]
    ]  # fmt: skip
    assert labels(task, by_system) == ["2", "1", "0", "not judged", "nothing ranked"]


def test_lengths_are_fractions_of_queries_and_of_distinct_titles():
    judgments = [
        Judgment("q1", "red fox", "a", "A b c", 1.0),
        Judgment("q2", "owl", "a", "A b c", 1.0),
        Judgment("q3", "", "b", "Fox", 1.0),
        Judgment("q4", "big-owl", "b", "Fox", 1.0),
    ]
    text = report(evaluate({"one": TableRanker({})}, judgments))[0]
    assert table_under(text, "## Lengths of queries and titles") == [
        ["Words", "Queries", "Titles"],
        ["0", "25.0 %", "0.0 %"],
        ["1", "25.0 %", "50.0 %"],
        ["2", "50.0 %", "0.0 %"],
        ["3", "0.0 %", "50.0 %"],
    ]
    assert "Mean length: queries 1.25 words, titles 2.00 words." in text
