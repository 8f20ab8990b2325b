import io
import json

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.metrics import METRICS
from dssm_tf.reports.files import run, write
from dssm_tf.reports.table import print_tables
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import read_qrels, read_run
from tests.rankers import BAD, GOOD, JUDGMENTS, TableRanker, many, texts


def test_written_files_hold_what_was_measured(tmp_path):
    evaluation = evaluate(*many())
    write(evaluation, tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*"))
    assert found == ["metrics.json", "per_query.json", "qrels.trec", "report.html", "results.json",
                     "runs/better.trec", "runs/worse.trec", "table.md", "table.tex"]  # fmt: skip
    written = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(written) == {"systems", "tests"}
    assert written["systems"]["better"]["ndcg@3"] == evaluation.mean("better", "ndcg@3")
    assert written["systems"]["better"]["queries"] == 60
    assert set(written["systems"]["better"]) == {*METRICS, "ci95", "parts", "queries",
                                                 "queries_left_out"}  # fmt: skip
    low, high = written["systems"]["better"]["ci95"]["ndcg@3"]
    assert 0 < low < evaluation.mean("better", "ndcg@3") < high < 1
    assert set(written["tests"][0]) == {
        "a", "b", "metric", "p", "p_adjusted", "difference", "ci95"
    }  # fmt: skip


def test_ir_measures_reads_the_written_files_as_the_same_numbers(tmp_path):
    # Most scores tie, and trec_eval breaks ties by doc id from the end.
    evaluation = evaluate(*many())
    write(evaluation, tmp_path / "out")
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
    write(evaluation, tmp_path / "out")
    run = read_run(tmp_path / "out" / "runs" / "worse.trec")
    again = evaluate({}, judgments, corpus, runs={"again": run})
    for metric in evaluation.metrics:
        assert again.mean("again", metric) == evaluation.mean("worse", metric)
    qrels = read_qrels(tmp_path / "out" / "qrels.trec")
    assert qrels["q7"] == {"d007": 1.0}


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40))
@settings(max_examples=60)
def test_scores_in_a_run_fall_strictly_in_single_precision(values):
    titles = texts("title", len(values))
    ranker = TableRanker({("q", t): v for t, v in zip(titles, values, strict=True)})
    corpus = [CorpusTitle(f"d{i:02d}", t) for i, t in enumerate(titles)]
    judgments = [Judgment("q", "q", "d00", titles[0], 1.0)]
    evaluation = evaluate({"s": ranker}, judgments, corpus)
    listed = list(run(evaluation.task, evaluation.rankings["s"])["q"].items())
    written = np.array([np.float32(f"{score:.9g}") for _, score in listed])
    assert (np.diff(written) < 0).all()
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert [doc_id for doc_id, _ in listed] == [f"d{i:02d}" for i in expected]


def test_names_that_cannot_be_file_names_get_one_each(tmp_path):
    evaluation = evaluate({"a/b c": GOOD, "a_b c": BAD, "A b_c": BAD}, JUDGMENTS)
    write(evaluation, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out" / "runs").iterdir())
    assert names == ["A_b_c-3.trec", "a_b_c-2.trec", "a_b_c.trec"]
    assert read_run(tmp_path / "out" / "runs" / "a_b_c.trec")


def test_the_terminal_table_shows_means_marks_and_protocol():
    evaluation = evaluate(*many())
    out = io.StringIO()
    print_tables(evaluation, Console(file=out, width=120))
    shown = out.getvalue()
    table = shown[shown.rindex("System") :]
    row = next(line for line in table.splitlines() if "better" in line)
    assert f"{evaluation.mean('better', 'ndcg@10'):.3f}ᵃ" in row
    assert "NDCG@10" in shown
    assert "Means over 60 queries" in shown
    assert "gain 2^grade - 1" in shown
    assert "Ties go by a hash of the title's text" in shown


def test_the_terminal_output_ends_with_the_table():
    out = io.StringIO()
    print_tables(evaluate(*many()), Console(file=out, width=120), "Written: there")
    shown = out.getvalue()
    assert shown.index("Written: there") < shown.index("System")
    assert shown.index("gain 2^grade - 1") < shown.index("System")


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_on_a_narrow_terminal_no_word_is_broken_and_no_column_lost(width):
    name = "rrf:bm25+doc2vec.size=4"
    evaluation = evaluate({name: GOOD, "b": BAD}, JUDGMENTS)
    out = io.StringIO()
    print_tables(evaluation, Console(file=out, width=width, force_terminal=True, color_system=None))
    words = out.getvalue().split()
    tables = words.count("System")
    assert words.count(name) - words.count("minus") >= tables >= 1
    assert {"NDCG@1", "NDCG@10"} <= set(words)
    assert "…" not in out.getvalue()
    lines = out.getvalue().splitlines()
    (first, *_) = [line for line in lines if line.strip().startswith(name)]
    assert tables == 1 or len(first) <= max(width, len(name) + 20)


def test_brackets_in_a_system_name_are_not_markup():
    out = io.StringIO()
    print_tables(evaluate({"lstm [red]": GOOD}, JUDGMENTS), Console(file=out, width=120))
    assert "lstm [red]" in out.getvalue()
