"""Evaluations in Python: values of metrics, comparisons, several seeds, runs, and errors."""

from dataclasses import replace

import numpy as np
import pytest

from dssm_tf.common import progress
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.intervals import mean_intervals
from dssm_tf.evaluation.metrics import Metric, per_query
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.reports.files import metrics_json, qrels
from dssm_tf.reports.formatting import protocol, reference_system, systems_significantly_worse_than
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.progress import write_last_line
from tests.rankers import BAD, CORPUS, GOOD, JUDGMENTS, TableRanker, rankers_on_many_queries, texts
from tests.relevant_ranks import relevant_ranks


def systems():
    return {"bad": BAD, "good": GOOD}


def test_with_a_corpus_titles_without_a_judgment_have_grade_0():
    evaluation = evaluate(systems(), JUDGMENTS, CORPUS)
    values = evaluation.values["bad"]
    hat, shoe, tie = (evaluation.task.queries.index(q) for q in ("hat", "shoe", "tie"))
    # green tie (not judged), blue box (1), then the ties at 0 by the hash of the title: red hat
    # (3), red shoe (not judged). DCG@10 = 1/log2(3) + 7/log2(4); best 7 + 1/log2(3)
    assert tie_key("red hat") < tie_key("red shoe")
    expected = (1 / np.log2(3) + 7 / np.log2(4)) / (7 + 1 / np.log2(3))
    assert values["ndcg@10"][hat] == pytest.approx(expected, abs=1e-6)
    # blue box, and of the ties at 0 green tie, red hat and red shoe (2)
    assert values["mrr@10"][shoe] == pytest.approx(1 / 4)
    assert np.isnan(values["ndcg@10"][tie])


def test_without_a_corpus_each_query_ranks_its_judged_titles_only():
    evaluation = evaluate(systems(), JUDGMENTS)
    hat = evaluation.task.queries.index("hat")
    # green tie is not in the race: blue box (1) then red hat (3)
    expected = (1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3))
    assert evaluation.values["bad"]["ndcg@10"][hat] == pytest.approx(expected, abs=1e-6)
    assert evaluation.top("bad", hat)["doc_id"].to_list() == ["d3", "d2"]
    # both queries have titles of different grades
    assert evaluation.task.degenerate_query_warning() == []


@pytest.mark.parametrize("corpus", [None, CORPUS])
def test_queries_without_a_relevant_title_are_left_out_and_counted(corpus):
    evaluation = evaluate(systems(), JUDGMENTS, corpus)
    assert evaluation.measured_queries == 2
    has_relevant = dict(zip(evaluation.task.query_ids, evaluation.task.has_relevant, strict=True))
    assert has_relevant == {"q1": True, "q2": True, "q3": False}
    assert evaluation.mean("good", "ndcg@1") == 1.0
    assert "1 further query has no relevant title" in " ".join(protocol(evaluation))
    assert metrics_json(evaluation)["systems"]["good"]["queries"] == 2
    ids = np.array(evaluation.task.query_ids)
    for in_log in (ids == "q1", ids != "q2"):
        subsets = replace(evaluation, in_log=in_log).query_subsets
        assert {name: ids[mask].tolist() for name, mask in subsets.items()} == {
            "known": ["q1"],
            "new": ["q2"],
        }


def test_the_report_says_that_tests_do_not_cover_variation_between_training_runs():
    caveat = "not between training runs: with one seed, the effect of another is unknown"
    assert caveat in " ".join(protocol(evaluate(systems(), JUDGMENTS, CORPUS)))
    assert caveat not in " ".join(protocol(evaluate({"good": GOOD}, JUDGMENTS, CORPUS)))


def test_the_interval_of_several_seeds_is_that_of_their_mean_over_queries():
    evaluation = evaluate(systems(), JUDGMENTS, CORPUS)
    seeds = [result for row in evaluation.rows for result in row.seeds]
    merged = replace(evaluation, rows=[replace(evaluation.rows[0], name="both", seeds=seeds)])
    (cell,) = merged.summary().filter(metric="ndcg@10").to_dicts()
    values = np.stack([result.values["ndcg@10"].to_numpy() for result in seeds])[
        :, evaluation.task.has_relevant
    ]
    assert cell["seeds"] == pytest.approx(values.mean(axis=1).tolist())
    assert cell["mean"] == pytest.approx(values.mean())
    assert cell["spread"] == pytest.approx(values.mean(axis=1).std(ddof=1))
    interval = mean_intervals(values.mean(axis=0)[:, None])[0]
    assert [cell["low"], cell["high"]] == pytest.approx(interval.tolist())


def test_systems_with_and_without_the_prior_are_named_apart():
    evaluation = evaluate(systems(), JUDGMENTS, CORPUS)
    rows_with_prior = [
        replace(row, name=f"{row.name}+prior", prior=True) for row in evaluation.rows
    ]
    rows = [*evaluation.rows, *rows_with_prior]
    evaluation = replace(evaluation, rows=rows, against=tuple(row.name for row in rows))
    assert [reference_system(evaluation, name) for name in evaluation.against] == [
        "good",
        "bad",
        "good+prior",
        "bad+prior",
    ]


def test_a_note_names_a_model_that_ranks_with_its_prior_beside_systems_without_one():
    with_prior = TableRanker(GOOD.table)
    with_prior.mean_prior = -0.1
    rows = evaluate({"bad": BAD, "lifted": with_prior}, JUDGMENTS, CORPUS).rows
    assert [bool(row.notes) for row in rows] == [False, True]
    assert "ranks with its log-prior of titles" in rows[1].notes[0]
    assert not evaluate({"lifted": with_prior}, JUDGMENTS, CORPUS).rows[0].notes


def test_a_title_judged_under_two_ids_is_matched_by_text_and_has_the_higher_grade():
    judgments = [
        Judgment("q1", "shoe", "x9", "red shoe", 2.0),
        Judgment("q1", "shoe", "d1", "red shoe", 1.0),
    ]
    for rows in (judgments[:1], judgments):
        evaluation = evaluate({"good": GOOD}, rows, CORPUS)
        assert evaluation.mean("good", "ndcg@1") == 1.0
        assert [(judgment.doc_id, judgment.grade) for judgment in qrels(evaluation.task)] == [
            ("d1", 2.0)
        ]


def test_a_missing_relevant_title_is_an_error_and_a_missing_irrelevant_one_is_ignored():
    with_missing = [*JUDGMENTS, Judgment("q1", "shoe", "d8", "lost shoe", 1.0)]
    with pytest.raises(UserError, match=r"1 relevant titles are not in the corpus.*'lost shoe'"):
        evaluate(systems(), with_missing, CORPUS)
    with_irrelevant = [*JUDGMENTS, Judgment("q1", "shoe", "d8", "lost shoe", 0.0)]
    assert evaluate(systems(), with_irrelevant, CORPUS).measured_queries == 2


def test_a_corpus_with_other_ids_is_refused_and_one_reworded_title_is_not():
    shifted = [CorpusTitle(f"d{i}", t) for i, t in enumerate(["a", "b", "c", "d", "e"])]
    with pytest.raises(UserError, match=r"'d2' is 'red hat' in the judgments and 'c' in the corp"):
        evaluate(systems(), JUDGMENTS, shifted)
    reworded = [*CORPUS[:3], CorpusTitle("d1", "red shoe (new)")]
    assert evaluate(systems(), JUDGMENTS, reworded).measured_queries == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_diverged_model_is_named_with_the_query(value):
    broken = TableRanker({("shoe", "blue box"): value})
    with pytest.raises(UserError, match=r"lstm returned a score that is not finite.*'shoe'"):
        evaluate({"lstm": broken}, JUDGMENTS, CORPUS)


def test_scores_of_a_wrong_shape_are_refused():
    class Wrong(TableRanker):
        def score_matrix(self, queries, titles):
            return np.zeros((len(titles), len(queries) + 1))

    with pytest.raises(UserError, match="expected"):
        evaluate({"wrong": Wrong({})}, JUDGMENTS, CORPUS)


@pytest.mark.parametrize(
    ("judgments", "message"),
    [([], "no judgment"), ([Judgment("q", "q", "d1", "red shoe", 0.0)], "grade above 0")],
)
def test_an_evaluation_without_grades_or_systems_is_an_error(judgments, message):
    with pytest.raises(UserError, match=message):
        evaluate(systems(), judgments, CORPUS)
    with pytest.raises(UserError, match="no system"):
        evaluate({}, JUDGMENTS)


def test_every_batch_of_queries_scores_the_same_tuple_of_corpus_titles(monkeypatch):
    monkeypatch.setattr("dssm_tf.evaluation.runs._MIN_BATCH", 1)
    monkeypatch.setattr("dssm_tf.evaluation.runs._CELLS", 8)  # two queries at a time
    ranker = TableRanker(GOOD.table)
    evaluate({"good": ranker}, JUDGMENTS, CORPUS)
    assert [len(queries) for queries, _ in ranker.calls] == [2, 1]
    assert len({id(titles) for _, titles in ranker.calls}) == 1


@pytest.mark.parametrize("ranks_corpus", [False, True])
def test_many_queries_in_blocks_equal_one_matrix(ranks_corpus, monkeypatch):
    monkeypatch.setattr("dssm_tf.evaluation.runs._MIN_BATCH", 1)
    monkeypatch.setattr("dssm_tf.evaluation.runs._CELLS", 700)
    random = np.random.default_rng(0)
    scores = random.integers(0, 6, (90, 70)).astype(float)  # many ties
    grades = random.integers(0, 4, (90, 70)) * (random.random((90, 70)) < 0.1)
    judged = (grades > 0) | (random.random((90, 70)) < 0.1)
    titles = texts("title", 70)
    table = {(f"query {q}", titles[t]): scores[q, t] for q in range(90) for t in range(70)}
    judgments = [
        Judgment(f"q{q}", f"query {q}", titles[t], titles[t], float(grades[q, t]))
        for t in range(70)
        for q in range(90)
        if judged[q, t]
    ]
    corpus = [CorpusTitle(title, title) for title in reversed(titles)]
    evaluation = evaluate({"s": TableRanker(table)}, judgments, corpus if ranks_corpus else None)
    rows = [int(query_id[1:]) for query_id in evaluation.task.query_ids]
    ranked = scores if ranks_corpus else np.where(judged, scores, -np.inf)
    expected = per_query(*relevant_ranks(ranked[rows], grades[rows]))
    measured = evaluation.values["s"]
    for metric in expected:
        assert measured[metric] == pytest.approx(expected[metric], abs=1e-6, nan_ok=True)


def test_a_run_is_measured_like_a_system_and_titles_it_lacks_are_not_ranked():
    run = {"q2": {"d4": 9.0, "d2": 5.0}}  # nothing for q1, no d3
    evaluation = evaluate({"good": GOOD}, JUDGMENTS, CORPUS, runs={"theirs": run})
    hat, shoe = (evaluation.task.queries.index(q) for q in ("hat", "shoe"))
    # red hat (3) at rank 2: DCG = 7/log2(3); best 7 + 1/log2(3)
    expected = (7 / np.log2(3)) / (7 + 1 / np.log2(3))
    assert evaluation.values["theirs"]["ndcg@10"][hat] == pytest.approx(expected, abs=1e-6)
    assert evaluation.values["theirs"]["ndcg@10"][shoe] == 0
    # precision 1/2 at rank 2, and one of the two relevant titles
    assert evaluation.values["theirs"]["map"][hat] == pytest.approx(1 / 4)
    judged_only = evaluate({}, JUDGMENTS, runs={"theirs": run})
    assert judged_only.values["theirs"]["mrr@10"][hat] == 1


def test_a_run_with_the_name_of_a_system_is_refused():
    with pytest.raises(UserError, match="both called good"):
        evaluate({"good": GOOD}, JUDGMENTS, CORPUS, runs={"good": {"q1": {"d1": 1.0}}})


def test_every_later_system_is_tested_against_every_earlier_one():
    evaluation = evaluate(*rankers_on_many_queries())
    test = next(t for t in evaluation.comparisons if t.metric == "ndcg@1")
    assert (test.a, test.b) == ("better", "worse")
    means = evaluation.mean("better", "ndcg@1") - evaluation.mean("worse", "ndcg@1")
    assert test.difference == pytest.approx(means)
    assert test.ci95[0] < test.difference < test.ci95[1]
    assert test.p < test.p_adjusted < 0.01  # one pair, six metrics
    assert systems_significantly_worse_than(evaluation, "better", "ndcg@1") == ["worse"]
    assert systems_significantly_worse_than(evaluation, "worse", "ndcg@1") == []


def test_only_significant_differences_are_marked():
    rankers, judgments, corpus = rankers_on_many_queries(queries=4)
    evaluation = evaluate(rankers, judgments, corpus)
    test = next(t for t in evaluation.comparisons if t.metric == "ndcg@1")
    assert test.difference > 0
    assert test.p_adjusted > 0.05
    assert systems_significantly_worse_than(evaluation, "better", "ndcg@1") == []


def test_progress_is_shown_if_requested(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_write_lines", write_last_line)
    evaluate(systems(), JUDGMENTS, progress=True)
    assert "3 of 3 queries" in capsys.readouterr().err


def test_top_returns_grades_and_null_for_titles_without_a_judgment():
    evaluation = evaluate({"good": GOOD}, JUDGMENTS, CORPUS)
    top = evaluation.top("good", evaluation.task.queries.index("shoe"))
    grades = dict(top.select("doc_id", "grade").iter_rows())
    assert (grades["d1"], grades["d3"], grades["d4"]) == (2.0, 0.0, None)
    hat = evaluation.task.queries.index("hat")
    assert evaluation.top("good", hat, depth=1).rows() == [(1, "d2", "red hat", 2.0, 3.0)]


def test_a_custom_metric_receives_the_ranks_and_grades_of_the_relevant_titles():
    calls = []

    def last_rank(ranks, grades):
        calls.append(sorted(zip(grades.tolist(), ranks.tolist(), strict=True)))
        return -float(np.minimum(ranks, 9).max())

    evaluation = evaluate(
        GOOD, JUDGMENTS, metrics=["mrr@10", Metric("last", last_rank), "map"],
        runs={"run": {"q2": {"d3": 1.0}, "q1": {"d1": 1.0}}},
    )  # fmt: skip
    assert evaluation.metrics == ("mrr@10", "last", "map")
    # hat: red hat (3) first, blue box (1) second; shoe: red shoe (2) first. The run lacks red hat.
    assert sorted(calls[:2]) == [[(1, 2), (3, 1)], [(2, 1)]]
    assert sorted(calls[2:]) == [[(1, 1), (3, np.inf)], [(2, 1)]]
    values = evaluation.values["table"]["last"]
    hat, shoe, tie = (evaluation.task.queries.index(q) for q in ("hat", "shoe", "tie"))
    assert (values[hat], values[shoe]) == (-2, -1)
    assert np.isnan(values[tie])


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["ndgc@10"], "metric 'ndgc@10': expected one of ndcg"),
        ([Metric("map", max)], "metric 'map' is built in; give your metric another name"),
        ([Metric("ndcg@7", max)], "metric 'ndcg@7' is built in"),
        ([Metric("a", max), "map", Metric("a", min)], "two metrics are called 'a'"),
        (
            [Metric("a", lambda ranks, grades: np.nan)],
            r"metric 'a' is nan for the ranks \[.*finite",
        ),
    ],
)
def test_metrics_that_cannot_be_measured_are_refused(metrics, message):
    with pytest.raises(UserError, match=message):
        evaluate(GOOD, JUDGMENTS, metrics=metrics)
