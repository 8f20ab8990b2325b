import io
import json

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import compare, evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import relevant_ranks
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment, read_qrels, read_run


class TableRanker:
    """Looks scores up, 0 where there is none; counts what it is asked."""

    def __init__(self, table, name="table"):
        self.name = name
        self.table = table
        self.asked = []

    def score(self, query, titles):
        return np.array([self.table.get((query, title), 0.0) for title in titles])

    def score_matrix(self, queries, titles):
        self.asked.append((list(queries), titles))
        return np.stack([self.score(query, titles) for query in queries])


JUDGMENTS = [
    Judgment("q2", "hat", "d2", "red hat", 3.0),
    Judgment("q1", "shoe", "d1", "red shoe", 2.0),
    Judgment("q2", "hat", "d3", "blue box", 1.0),
    Judgment("q1", "shoe", "d3", "blue box", 0.0),
    Judgment("q3", "tie", "d3", "blue box", 0.0),
]
CORPUS = [
    CorpusTitle("d4", "green tie"),
    CorpusTitle("d3", "blue box"),
    CorpusTitle("d2", "red hat"),
    CorpusTitle("d1", "red shoe"),
]
GOOD = TableRanker({("hat", "red hat"): 2.0, ("hat", "blue box"): 1.0, ("shoe", "red shoe"): 1.0})
BAD = TableRanker({("hat", "green tie"): 2.0, ("hat", "blue box"): 1.0, ("shoe", "blue box"): 1.0})


def systems():
    return {"bad": BAD, "good": GOOD}


def test_with_a_corpus_titles_nobody_judged_count_as_grade_0():
    evaluation = evaluate(systems(), JUDGMENTS, CORPUS)
    values = evaluation.values["bad"]
    hat, shoe, tie = (evaluation.task.queries.index(q) for q in ("hat", "shoe", "tie"))
    # green tie (not judged), blue box (1), then the ties at 0 by doc id: red shoe (d1, not
    # judged), red hat (d2, 3). DCG@10 = 1/log2(3) + 7/log2(5); best 7 + 1/log2(3)
    expected = (1 / np.log2(3) + 7 / np.log2(5)) / (7 + 1 / np.log2(3))
    assert values["ndcg@10"][hat] == pytest.approx(expected, abs=1e-6)
    assert values["mrr@10"][shoe] == pytest.approx(1 / 2)
    assert np.isnan(values["ndcg@10"][tie])


def test_without_a_corpus_each_query_ranks_its_judged_titles_only():
    evaluation = evaluate(systems(), JUDGMENTS)
    hat = evaluation.task.queries.index("hat")
    # green tie is not in the race: blue box (1) then red hat (3)
    expected = (1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3))
    assert evaluation.values["bad"]["ndcg@10"][hat] == pytest.approx(expected, abs=1e-6)
    assert [line.doc_id for line in evaluation.top("bad", hat)] == ["d3", "d2"]


@pytest.mark.parametrize("corpus", [None, CORPUS])
def test_queries_without_a_relevant_title_are_left_out_and_counted(corpus):
    evaluation = evaluate(systems(), JUDGMENTS, corpus)
    assert evaluation.measured_queries == 2
    assert [evaluation.task.query_ids[row] for row in evaluation.task.left_out()] == ["q3"]
    assert evaluation.mean("good", "ndcg@1") == 1.0
    assert "1 further query has no relevant title" in " ".join(evaluation.protocol())
    assert evaluation.to_json()["systems"]["good"]["queries"] == 2


def test_queries_keep_the_order_of_the_judgments():
    assert evaluate(systems(), JUDGMENTS).task.query_ids == ("q2", "q1", "q3")


def test_a_title_is_found_by_its_text_where_the_doc_id_differs():
    judgments = [Judgment("q1", "shoe", "x9", "red shoe", 2.0)]
    evaluation = evaluate({"good": GOOD}, judgments, CORPUS)
    assert evaluation.mean("good", "ndcg@1") == 1.0
    assert [judgment.doc_id for judgment in evaluation.qrels()] == ["d1"]


def test_a_title_judged_under_two_ids_keeps_the_higher_grade():
    judgments = [
        Judgment("q1", "shoe", "d1", "red shoe", 2.0),
        Judgment("q1", "shoe", "x9", "red shoe", 1.0),
    ]
    assert [j.grade for j in evaluate({"good": GOOD}, judgments, CORPUS).qrels()] == [2.0]


def test_relevant_titles_missing_from_the_corpus_are_an_error_and_others_are_counted():
    lost = [*JUDGMENTS, Judgment("q1", "shoe", "d8", "lost shoe", 1.0)]
    with pytest.raises(UserError, match=r"1 relevant titles are not in the corpus.*'lost shoe'"):
        evaluate(systems(), lost, CORPUS)
    harmless = [*JUDGMENTS, Judgment("q1", "shoe", "d8", "lost shoe", 0.0)]
    evaluation = evaluate(systems(), harmless, CORPUS)
    assert evaluation.task.dropped == 1
    assert "1 judgments with grade 0 are of titles that the corpus lacks" in " ".join(
        evaluation.protocol()
    )


def test_a_corpus_with_other_ids_is_refused_and_one_reworded_title_is_not():
    shifted = [CorpusTitle(f"d{i}", t) for i, t in enumerate(["a", "b", "c", "d", "e"])]
    with pytest.raises(UserError, match=r"'d2' is 'red hat' in the judgments and 'c' in the corp"):
        evaluate(systems(), JUDGMENTS, shifted)
    reworded = [*CORPUS[:3], CorpusTitle("d1", "red shoe (new)")]
    assert evaluate(systems(), JUDGMENTS, reworded).task.retitled == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_diverged_model_is_named_with_the_query(value):
    broken = TableRanker({("shoe", "blue box"): value})
    with pytest.raises(UserError, match=r"lstm gave a score that is not finite.*'shoe'"):
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
def test_nothing_to_measure_is_an_error(judgments, message):
    with pytest.raises(UserError, match=message):
        evaluate(systems(), judgments, CORPUS)
    with pytest.raises(UserError, match="no system"):
        evaluate({}, JUDGMENTS)


def test_a_whole_corpus_is_asked_for_with_the_same_tuple_every_time(monkeypatch):
    monkeypatch.setattr("dssm_tf.evaluation.evaluate._CELLS", 8)  # two queries at a time
    ranker = TableRanker(GOOD.table)
    evaluate({"good": ranker}, JUDGMENTS, CORPUS)
    assert [len(queries) for queries, _ in ranker.asked] == [2, 1]
    assert len({id(titles) for _, titles in ranker.asked}) == 1


@pytest.mark.parametrize("whole", [False, True])
def test_many_queries_in_blocks_equal_one_matrix(whole, monkeypatch):
    monkeypatch.setattr("dssm_tf.evaluation.evaluate._CELLS", 700)
    random = np.random.default_rng(0)
    scores = random.integers(0, 6, (90, 70)).astype(float)  # many ties
    grades = random.integers(0, 4, (90, 70)) * (random.random((90, 70)) < 0.1)
    judged = (grades > 0) | (random.random((90, 70)) < 0.1)
    table = {(f"query {q}", f"title {t:02d}"): scores[q, t] for q in range(90) for t in range(70)}
    judgments = [
        Judgment(f"q{q}", f"query {q}", f"d{t:02d}", f"title {t:02d}", float(grades[q, t]))
        for t in range(70)
        for q in range(90)
        if judged[q, t]
    ]
    corpus = [CorpusTitle(f"d{t:02d}", f"title {t:02d}") for t in reversed(range(70))]
    evaluation = evaluate({"s": TableRanker(table)}, judgments, corpus if whole else None)
    rows = [int(query_id[1:]) for query_id in evaluation.task.query_ids]
    ranked = scores if whole else np.where(judged, scores, -np.inf)
    expected = per_query(relevant_ranks(ranked[rows], grades[rows]))
    for metric, values in evaluation.values["s"].items():
        assert values == pytest.approx(expected[metric], abs=1e-6, nan_ok=True)


def test_a_run_is_measured_like_a_system_and_what_it_lacks_is_not_ranked():
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


def test_runs_made_from_something_else_are_refused():
    with pytest.raises(UserError, match="ranks 1 titles that the corpus lacks"):
        evaluate({}, JUDGMENTS, CORPUS, runs={"r": {"q1": {"zz": 1.0}}})
    with pytest.raises(UserError, match="none of the judged query ids"):
        evaluate({}, JUDGMENTS, CORPUS, runs={"r": {"7": {"d1": 1.0}}})
    with pytest.raises(UserError, match="both called good"):
        evaluate({"good": GOOD}, JUDGMENTS, CORPUS, runs={"good": {"q1": {"d1": 1.0}}})


def many(seed=0, queries=60):
    """Two systems on many queries; `better` is right about twice as often as `worse`."""
    random = np.random.default_rng(seed)
    judgments, tables = [], {"worse": {}, "better": {}}
    for q in range(queries):
        judgments.append(Judgment(f"q{q}", f"query {q}", f"d{q:03d}", f"title {q}", 1.0))
        for name, chance in (("worse", 0.4), ("better", 0.8)):
            tables[name][f"query {q}", f"title {q}"] = float(random.random() < chance) - 0.5
    corpus = [CorpusTitle(f"d{q:03d}", f"title {q}") for q in range(queries)]
    return {name: TableRanker(table) for name, table in tables.items()}, judgments, corpus


def test_every_pair_is_tested_the_later_against_the_earlier():
    evaluation = evaluate(*many())
    test = next(t for t in evaluation.comparisons if t.metric == "ndcg@1")
    assert (test.a, test.b) == ("better", "worse")
    means = evaluation.mean("better", "ndcg@1") - evaluation.mean("worse", "ndcg@1")
    assert test.difference == pytest.approx(means)
    assert test.ci95[0] < test.difference < test.ci95[1]
    assert test.p_adjusted == test.p < 0.01  # one pair: nothing to adjust
    assert evaluation.beaten("better", "ndcg@1") == ["worse"]
    assert evaluation.beaten("worse", "ndcg@1") == []


def test_p_is_adjusted_over_the_pairs_of_a_metric():
    random = np.random.default_rng(1)
    values = {name: {"m": random.random(50) + shift, "n": random.random(50)} for name, shift in
              (("a", 0.0), ("b", 0.1), ("c", 0.2))}  # fmt: skip
    tests = [test for test in compare(values, ["m", "n"]) if test.metric == "m"]
    assert [(t.a, t.b) for t in tests] == [("b", "a"), ("c", "a"), ("c", "b")]
    smallest = min(tests, key=lambda test: test.p)
    assert smallest.p_adjusted == pytest.approx(3 * smallest.p)
    only = compare(values, ["m"], against=["a"])
    assert [(t.a, t.b) for t in only] == [("b", "a"), ("c", "a")]


def test_only_significant_differences_are_marked():
    rankers, judgments, corpus = many(queries=4)
    evaluation = evaluate(rankers, judgments, corpus)
    test = next(t for t in evaluation.comparisons if t.metric == "ndcg@1")
    assert test.difference > 0
    assert test.p_adjusted > 0.05
    assert evaluation.beaten("better", "ndcg@1") == []


def test_the_same_system_twice_differs_in_nothing():
    evaluation = evaluate({"a": GOOD, "b": GOOD}, JUDGMENTS, CORPUS)
    for test in evaluation.comparisons:
        assert (test.difference, test.p, test.p_adjusted, test.ci95) == (0, 1, 1, (0, 0))


def test_written_files_hold_what_was_measured(tmp_path):
    evaluation = evaluate(*many(), depth=20)
    evaluation.write(tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*"))
    assert found == ["metrics.json", "qrels.trec", "report.html", "runs/better.trec",
                     "runs/worse.trec"]  # fmt: skip
    written = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(written) == {"systems", "tests"}
    assert written["systems"]["better"]["ndcg@3"] == evaluation.mean("better", "ndcg@3")
    assert written["systems"]["better"]["queries"] == 60
    assert set(written["tests"][0]) == {
        "a", "b", "metric", "p", "p_adjusted", "p_randomisation", "difference", "ci95"
    }  # fmt: skip


def test_ir_measures_reads_the_written_files_as_the_same_numbers(tmp_path):
    # Most scores tie, and trec_eval breaks ties by doc id from the end.
    evaluation = evaluate(*many(), depth=60)
    evaluation.write(tmp_path / "out")
    for system in evaluation.systems:
        theirs = ir_measures.calc_aggregate(
            [ir_measures.nDCG @ 10, ir_measures.RR @ 10, ir_measures.R @ 10],
            ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.trec")),
            ir_measures.read_trec_run(str(tmp_path / "out" / "runs" / f"{system}.trec")),
        )
        ours = [evaluation.mean(system, name) for name in ("ndcg@10", "mrr@10", "recall@10")]
        assert list(theirs.values()) == pytest.approx(ours, abs=1e-6)


def test_a_written_run_evaluates_to_the_same_numbers(tmp_path):
    rankers, judgments, corpus = many()
    evaluation = evaluate(rankers, judgments, corpus)
    evaluation.write(tmp_path / "out")
    run = read_run(tmp_path / "out" / "runs" / "worse.trec")
    again = evaluate({}, judgments, corpus, runs={"again": run})
    for metric in evaluation.metrics:
        assert again.mean("again", metric) == evaluation.mean("worse", metric)
    qrels = read_qrels(tmp_path / "out" / "qrels.trec")
    assert qrels["q7"] == {"d007": 1.0}


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40))
@settings(max_examples=60)
def test_scores_in_a_run_fall_strictly_in_single_precision(values):
    titles = [f"t{i}" for i in range(len(values))]
    ranker = TableRanker({("q", t): v for t, v in zip(titles, values, strict=True)})
    corpus = [CorpusTitle(f"d{i:02d}", t) for i, t in enumerate(titles)]
    evaluation = evaluate({"s": ranker}, [Judgment("q", "q", "d00", "t0", 1.0)], corpus, samples=1)
    run = list(evaluation.run("s")["q"].items())
    written = np.array([np.float32(f"{score:.9g}") for _, score in run])
    assert (np.diff(written) < 0).all()
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert [doc_id for doc_id, _ in run] == [f"d{i:02d}" for i in expected]


def test_it_writes_all_or_nothing(tmp_path, monkeypatch):
    evaluation = evaluate(systems(), JUDGMENTS)

    def fail(_):
        raise RuntimeError("disk full")

    monkeypatch.setattr("dssm_tf.evaluation.report.render", fail)
    with pytest.raises(RuntimeError):
        evaluation.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_result_is_not_overwritten_by_accident(tmp_path):
    evaluation = evaluate(systems(), JUDGMENTS)
    evaluation.write(tmp_path / "out")
    with pytest.raises(UserError, match="exists already"):
        evaluation.write(tmp_path / "out")
    evaluation.write(tmp_path / "out", replace=True)


def test_names_that_cannot_be_file_names_get_one_each(tmp_path):
    evaluation = evaluate({"a/b c": GOOD, "a_b c": BAD, "A b_c": BAD}, JUDGMENTS)
    evaluation.write(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out" / "runs").iterdir())
    assert names == ["A_b_c-3.trec", "a_b_c-2.trec", "a_b_c.trec"]
    assert read_run(tmp_path / "out" / "runs" / "a_b_c.trec")


def test_the_terminal_table_shows_means_marks_and_protocol():
    evaluation = evaluate(*many())
    out = io.StringIO()
    evaluation.print_table(Console(file=out, width=120))
    shown = out.getvalue()
    row = next(line for line in shown.splitlines() if "better" in line)
    assert f"{evaluation.mean('better', 'ndcg@10'):.3f}ᵃ" in row
    assert "NDCG@10" in shown
    assert "Means over 60 queries" in shown
    assert "gain 2^grade - 1" in shown
    assert "Ties go to the smaller doc id" in shown


def test_brackets_in_a_system_name_are_not_markup():
    out = io.StringIO()
    evaluate({"lstm [red]": GOOD}, JUDGMENTS).print_table(Console(file=out, width=120))
    assert "lstm [red]" in out.getvalue()


def test_progress_is_shown_where_a_console_is_given():
    out = io.StringIO()
    evaluate(systems(), JUDGMENTS, console=Console(file=out, force_terminal=True, width=100))
    assert "3 of 3 queries" in out.getvalue()


def test_a_task_finds_grades_and_tells_unjudged_from_bad():
    task = RankingTask(JUDGMENTS, CORPUS)
    shoe = task.queries.index("shoe")
    grades = [task.grade(shoe, task.doc_ids.index(d)) for d in ("d1", "d3", "d4")]
    assert grades == [2.0, 0.0, None]


def test_values_and_rankings_are_there_for_others_to_use():
    evaluation = evaluate(systems(), JUDGMENTS, CORPUS)
    assert isinstance(evaluation, Evaluation)
    hat = evaluation.task.queries.index("hat")
    first = evaluation.top("good", hat, depth=1)[0]
    assert first == (1, "d2", "red hat", 2.0, 3.0)
