"""A gate compares two systems on clicks that neither has learned."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from pytest import approx
from scipy import stats

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult
from dssm_tf.evaluation.gate import compare_with_live, unlearned_queries
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.gate_files import write_gate
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.training_log import TrainingLog

QUERIES = 20
CORPUS = [CorpusTitle(f"d{n}", f"title {n}") for n in range(QUERIES)]
JUDGMENTS = [Judgment(f"q{n}", f"query {n}", f"d{n}", f"title {n}", 1.0) for n in range(QUERIES)]


def evaluation(differences, judgments=JUDGMENTS, corpus=CORPUS):
    """The live model has 0.5 for every query; the new one differs by the query's number."""
    task = RankingTask(judgments, corpus)
    numbers = [int(query.split()[1]) for query in task.queries]
    live = np.full(len(numbers), 0.5)
    new = live + np.array([differences[number] for number in numbers])
    no_run = pl.DataFrame()
    rows = [
        Row(name, "system", [SeedResult(None, pl.DataFrame({"ndcg@10": values}), no_run)])
        for name, values in (("live", live), ("new", new))
    ]
    return Evaluation(task, ("ndcg@10",), rows, [], ("live",))


def log_of(*pairs):
    return TrainingLog.from_clicks([(query, title, 1.0) for query, title in pairs], FOLDED)


def gate(differences, training_logs=(), **options):
    return compare_with_live(
        evaluation(differences), "new", "live", "ndcg@10", training_logs, **options
    )


WORSE = [-0.3] * 10 + [0.1] * 10  # mean -0.1


def test_a_significant_loss_is_worse():
    result = gate(WORSE)
    # Mean -0.1, standard deviation 0.2 * sqrt(20 / 19), standard error that / sqrt(20).
    t = -0.1 / (0.2 * np.sqrt(20 / 19) / np.sqrt(20))
    assert result.p == approx(2 * stats.t.cdf(t, 19))
    assert result.p < 0.05
    assert result.worse
    assert (result.new_mean, result.live_mean) == (approx(0.4), approx(0.5))
    assert result.line().startswith(
        "worse: ndcg@10 of new 0.400, of live 0.500, difference -0.100 (95 % interval -0.19"
    )


@pytest.mark.parametrize(
    ("differences", "tolerance", "verdict"),
    [
        (WORSE, 0.1, "not worse by more than the tolerance: "),
        (WORSE, 0.09, "worse: "),
        ([-x for x in WORSE], 0.0, "not worse: "),
        ([0.0] * QUERIES, 0.0, "not worse: "),
        ([-0.3, 0.2] * 10, 0.0, "not worse: "),  # mean -0.05, p = 0.39
    ],
)
def test_only_a_significant_loss_above_the_tolerance_is_worse(differences, tolerance, verdict):
    assert gate(differences, tolerance=tolerance).line().startswith(verdict)


def test_queries_of_which_one_model_has_learned_a_click_are_left_out_of_both():
    # The ten queries that are worse were learned by one of the two models.
    new = log_of(*((f"Query {n}!", f"title {n}") for n in range(5)))
    live = log_of(*((f"query {n}", f"title {n}") for n in range(5, 10)), ("query 12", "title 3"))
    result = gate(WORSE, [new, live])
    # The live model has learned query 12 with another title, so its judged click is new.
    assert (result.queries, result.left_out) == (10, 10)
    assert result.difference == approx(0.1)
    assert not result.worse
    assert result.line().endswith("on 10 queries; 10 with learned clicks are left out")


def test_queries_of_a_log_without_pairs_are_left_out():
    task = RankingTask(JUDGMENTS, CORPUS)
    known = TrainingLog(FOLDED, FOLDED.ids(["query 3", "query 4"]), None)
    mask = unlearned_queries(task, [known])
    left_out = [task.queries[row] for row in np.flatnonzero(~mask)]
    assert sorted(left_out) == ["query 3", "query 4"]


def test_a_query_of_several_titles_is_left_out_if_one_of_them_was_learned():
    judgments = [*JUDGMENTS, Judgment("q0", "query 0", "d1", "title 1", 2.0)]
    task = RankingTask(judgments, CORPUS)
    mask = unlearned_queries(task, [log_of(("query 0", "title 1"))])
    assert [task.queries[row] for row in np.flatnonzero(~mask)] == ["query 0"]


def test_too_few_queries_are_an_error():
    learned = log_of(*((f"query {n}", f"title {n}") for n in range(5)))
    with pytest.raises(UserError, match="15 of 20 judged queries have only clicks that neither"):
        gate(WORSE, [learned], min_queries=16)


def test_judgments_for_which_every_order_is_perfect_are_an_error():
    with pytest.raises(UserError, match="for 20 of 20 queries all judged titles have the same"):
        compare_with_live(evaluation(WORSE, corpus=None), "new", "live", "ndcg@10", [])


@pytest.mark.parametrize("differences", [WORSE, [0.0] * QUERIES])
def test_the_files_for_continuous_integration_have_the_result(tmp_path, differences):
    result = gate(differences)
    write_gate(result, tmp_path)
    suites = ElementTree.parse(tmp_path / "gate.xml").getroot()
    (suite,) = suites
    (case,) = suite.findall("testcase")
    assert case.get("name") == "ndcg@10 of new is not worse than that of live"
    failures = [failure.get("message") for failure in case.findall("failure")]
    assert failures == [result.line()] * result.worse
    assert suite.get("tests") == "1"
    assert suite.get("failures") == suites.get("failures") == str(int(result.worse))
    markdown = (tmp_path / "gate.md").read_text("utf-8")
    assert result.line() in markdown
    assert markdown.startswith("# Worse" if result.worse else "# Not worse")
