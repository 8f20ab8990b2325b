"""The files of an evaluation, read by this package and by ir_measures."""

import json
import os
import sys
from dataclasses import replace

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.evaluation.evaluate import evaluate, saved_ranks
from dssm_tf.evaluation.metrics import Metric
from dssm_tf.reports import report
from dssm_tf.reports.files import metrics_json, per_query, run, write
from dssm_tf.reports.formatting import protocol
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import read_run
from tests.rankers import BAD, CORPUS, GOOD, JUDGMENTS, TableRanker, rankers_on_many_queries, texts


@pytest.fixture(scope="module")
def evaluation():
    return evaluate(*rankers_on_many_queries())


@pytest.fixture(scope="module")
def written(evaluation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    write(evaluation, folder)
    return folder


def test_written_files_contain_the_results(evaluation, written):
    names = sorted(str(path.relative_to(written)) for path in written.rglob("*.*"))
    assert names == ["metrics.json", "per_query.tsv", "qrels.trec", "report.html", "report.md",
                     "runs/better.trec", "runs/worse.trec"]  # fmt: skip
    metrics = json.loads((written / "metrics.json").read_text())
    better = metrics["systems"]["better"]
    assert better["ndcg@3"] == evaluation.mean("better", "ndcg@3")
    assert better["queries"] == 60
    low, high = better["ci95"]["ndcg@3"]
    assert 0 < low < evaluation.mean("better", "ndcg@3") < high < 1
    assert set(metrics["tests"][0]) == {
        "a", "b", "metric", "p", "p_adjusted", "difference", "ci95"
    }  # fmt: skip


def test_a_process_that_is_killed_while_it_writes_leaves_no_page(evaluation, tmp_path, monkeypatch):
    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("dssm_tf.reports.files.write_run", killed)
    with pytest.raises(KeyboardInterrupt):
        write(evaluation, tmp_path)
    assert (tmp_path / "metrics.json").exists()
    assert not list(tmp_path.glob("report.*"))


def test_ir_measures_computes_the_same_metrics_from_the_written_files(evaluation, written):
    # Most scores tie, and trec_eval breaks ties by descending doc id.
    for system in evaluation.systems:
        computed = ir_measures.calc_aggregate(
            [ir_measures.nDCG @ 10, ir_measures.RR @ 10, ir_measures.R @ 10],
            ir_measures.read_trec_qrels(f"{written}/qrels.trec"),
            ir_measures.read_trec_run(f"{written}/runs/{system}.trec"),
        )
        expected = [evaluation.mean(system, name) for name in ("ndcg@10", "mrr@10", "recall@10")]
        assert list(computed.values()) == pytest.approx(expected, abs=1e-6)


def test_table_and_run_file_agree_for_titles_below_rank_100_and_queries_without_relevant_titles(
    tmp_path,
):
    titles = texts("title", 300)
    corpus = [CorpusTitle(f"d{i:03d}", title) for i, title in enumerate(titles)]
    scores = {("query", title): -float(i) for i, title in enumerate(titles)}
    judgments = [
        Judgment("q1", "query", "d000", titles[0], 1.0),
        Judgment("q1", "query", "d199", titles[199], 1.0),
        Judgment("q2", "!", "d001", titles[1], 0.0),
    ]
    scores |= {("!", title): 0.0 for title in titles}
    metrics = ["map", "recall@150", "recall@250", "precision@200", "mrr@10"]
    evaluation = evaluate({"s": TableRanker(scores)}, judgments, corpus, metrics=metrics)
    write(evaluation, tmp_path)
    expected = [(1 / 1 + 2 / 200) / 2, 1 / 2, 2 / 2, 2 / 200, 1]
    assert [evaluation.mean("s", name) for name in metrics] == pytest.approx(expected)
    R, P = ir_measures.R, ir_measures.P
    measures = [ir_measures.AP, R @ 150, R @ 250, P @ 200, ir_measures.RR @ 10]
    computed = ir_measures.calc_aggregate(
        measures,
        ir_measures.read_trec_qrels(f"{tmp_path}/qrels.trec"),
        ir_measures.read_trec_run(f"{tmp_path}/runs/s.trec"),
    )
    assert [computed[measure] for measure in measures] == pytest.approx(expected)
    # The query without words has no relevant title, so it is not among the measured ones.
    assert not any("no word after normalization" in line for line in protocol(evaluation))


def test_a_run_file_is_as_deep_as_the_deepest_metric():
    success = Metric("success", lambda ranks, grades: float(ranks.min() < 9))
    assert saved_ranks(["ndcg@10", "judged@10"]) == 100
    assert saved_ranks(["recall@200", "ndcg@10"]) == 200
    assert saved_ranks(["ndcg@10", "map"]) == saved_ranks(["recall@9000"]) == 1000
    assert saved_ranks([success]) == 1000


def test_a_written_run_evaluates_to_the_same_metrics(evaluation, written):
    _, *judged = rankers_on_many_queries()
    rerun = evaluate({}, *judged, runs={"rerun": read_run(written / "runs/worse.trec")})
    for metric in evaluation.metrics:
        assert rerun.mean("rerun", metric) == evaluation.mean("worse", metric)
    assert "q7 0 d007 1\n" in (written / "qrels.trec").read_text("utf-8")


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40))
@settings(max_examples=60)
def test_scores_in_a_run_are_strictly_descending_in_single_precision(values):
    titles = texts("title", len(values))
    ranker = TableRanker({("q", t): v for t, v in zip(titles, values, strict=True)})
    corpus = [CorpusTitle(f"d{i:02d}", t) for i, t in enumerate(titles)]
    judgments = [Judgment("q", "q", "d00", titles[0], 1.0)]
    evaluation = evaluate({"s": ranker}, judgments, corpus)
    listed = list(run(evaluation.task, evaluation.runs["s"])["q"].items())
    written = np.array([np.float32(f"{score:.9g}") for _, score in listed])
    assert (np.diff(written) < 0).all()
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert [doc_id for doc_id, _ in listed] == [f"d{i:02d}" for i in expected]


def test_system_names_become_unique_valid_file_names(tmp_path):
    evaluation = evaluate({"a/b c": GOOD, "a_b c": BAD, "A b_c": BAD}, JUDGMENTS)
    write(evaluation, tmp_path)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["A_b_c-3.trec", "a_b_c-1.trec", "a_b_c-2.trec"]
    assert read_run(tmp_path / "runs" / "a_b_c-1.trec")


@pytest.fixture
def printed(monkeypatch, capsys):
    """Returns a function from an evaluation to its printed report.

    With a width, standard output is a terminal of that width.
    """

    def output(evaluation, width=None, written=""):
        monkeypatch.setattr(report, "get_terminal_size", lambda: os.terminal_size((width or 80, 9)))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None)
        report.show(evaluation, written)
        return capsys.readouterr().out

    return output


def test_the_printed_report_ends_with_the_table_of_means_and_superscripts(evaluation, printed):
    protocol, table = printed(evaluation, written="Written: there").split("Written: there\n")
    row = next(line for line in table.splitlines() if "better" in line)
    assert f"**{evaluation.mean('better', 'ndcg@10'):.3f}**ᵃ" in row
    assert table.lstrip("\n").startswith("| System")
    for text in ("Means over 60 queries", "gain 2^grade - 1", "Ties are broken by a hash of the"):
        assert text in protocol


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_a_narrow_terminal_breaks_no_word_and_omits_no_column(printed, width):
    name = "rrf:bm25+doc2vec.size=4"
    words = printed(evaluate({name: GOOD, "b": BAD}, JUDGMENTS), width).split()
    tables = words.count("System")
    # Each table has the name in its first column. Tests, such as `A minus B`, also have it once.
    assert words.count(name) - words.count("minus") >= tables >= 1
    assert {"NDCG@1", "NDCG@10"} <= set(words)


@pytest.fixture(scope="module")
def judged_only():
    """An evaluation that also ranks judged titles only; the first system has two seeds."""
    evaluation = evaluate({"good": GOOD, "bad": BAD}, JUDGMENTS, CORPUS, judged_only=True)
    for row in (evaluation.rows[0], evaluation.judged_only.rows[0]):
        row.seeds = [replace(row.seeds[0], seed=seed) for seed in (0, 1)]
    return evaluation


def test_reports_have_the_table_of_all_titles_and_that_of_judged_titles(
    judged_only, printed, tmp_path
):
    write(judged_only, tmp_path)
    report_text = (tmp_path / "report.md").read_text("utf-8")
    page = (tmp_path / "report.html").read_text("utf-8")
    terminal = printed(judged_only)
    for content in (report_text, page, terminal):
        before, section = content.split("Judged titles only", 1)
        assert "Judged@10" in before
        assert "Concordance" not in before
        assert "Concordance: of the pairs of a query's judged titles whose grades differ" in section
        assert "Mean over 2 queries that have such a pair" in section
    _, section = report_text.split("### Judged titles only")
    header, _, good, bad = section.strip().splitlines()[:4]
    assert [cell.strip() for cell in header.split("|")[2:-1]] == [
        "NDCG@1", "NDCG@3", "NDCG@10", "Concordance",
    ]  # fmt: skip
    # Each system orders both pairs correctly or both wrongly. For two queries with the same value,
    # the interval is exact: 0.025^(1/2) = 0.158 to 1, or 0 to 0.842.
    assert good.split("|")[-2].strip().startswith("**1.000** ±.000 (.158-1.00)")
    assert bad.split("|")[-2].strip() == "0.000 (.000-.842)"
    assert "## The tests on judged titles only" in report_text


def test_json_and_tsv_have_both_tables(judged_only):
    entry = metrics_json(judged_only)["judged_only"]
    assert entry["metrics"] == ["ndcg@1", "ndcg@3", "ndcg@10", "concordance"]
    assert entry["systems"]["good"]["concordance"] == 1
    assert entry["systems"]["good"]["seeds"]["concordance"] == [1, 1]
    assert entry["systems"]["bad"]["ci95"]["concordance"] == (0, pytest.approx(0.842, abs=5e-4))
    assert {test["metric"] for test in entry["tests"]} == set(entry["metrics"])
    assert "concordance" not in metrics_json(judged_only)["metrics"]
    table = per_query(judged_only)
    assert table["system"].to_list() == ["good"] * 6 + ["bad"] * 3
    rows = {(row["system"], row["query"]): row for row in table.iter_rows(named=True)}
    bad = rows["bad", "hat"]
    # The judged titles in order are blue box (grade 1) and red hat (3); green tie is not judged.
    assert bad["judged_only_ndcg@1"] == pytest.approx(1 / 7, abs=1e-6)
    assert (bad["judged_only_concordance"], bad["judged@10"], bad["ndcg@1"]) == (0, 0.5, 0)
    assert rows["good", "tie"]["judged_only_concordance"] is None


def test_without_the_option_no_file_has_the_second_table(evaluation):
    assert metrics_json(evaluation)["judged_only"] is None
    assert not any("judged_only" in column for column in per_query(evaluation).columns)
    assert "Judged titles only" not in report.text(evaluation)[0]


def test_brackets_in_a_system_name_are_escaped(printed):
    assert r"lstm \[red\]" in printed(evaluate({"lstm [red]": GOOD}, JUDGMENTS))
