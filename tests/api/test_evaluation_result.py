"""The result of `dssm_tf.evaluate`: frames, intervals, tests, HTML, figures, other tools."""

from __future__ import annotations

import ir_measures
import numpy as np
import polars as pl
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.evaluation.intervals import mean_intervals
from tests.rankers import CORPUS, GOOD, JUDGMENTS, rankers_on_many_queries
from tests.script import python

METRICS = ["mrr@10", "ndcg@10"]


@pytest.fixture(scope="module")
def result() -> dssm_tf.EvaluationResult:
    rankers, judgments, corpus = rankers_on_many_queries()
    return dssm_tf.evaluate(rankers, judgments, corpus, metrics=METRICS)


def test_the_frame_has_one_row_per_system_with_intervals(result):
    frame = result.to_frame()
    assert frame["system"].to_list() == ["worse", "better"]
    assert frame["queries"].to_list() == [60, 60]
    values = result.values["better"]["mrr@10"]
    row = frame.row(1, named=True)
    assert row["mrr@10"] == approx(values.mean())
    (interval,) = mean_intervals(values[:, None])
    assert [row["mrr@10_low"], row["mrr@10_high"]] == approx(interval.tolist())


def test_values_have_the_ids_of_their_queries():
    result = dssm_tf.evaluate(GOOD, JUDGMENTS, CORPUS, metrics=["mrr@10"])
    rows = result.per_query().rows_by_key("query_id", named=True, unique=True)
    # The relevant title of q1 and the first one of q2 are first; q3 has no relevant title.
    assert {query_id: row["mrr@10"] for query_id, row in rows.items()} == {
        "q1": 1.0, "q2": 1.0, "q3": None,
    }  # fmt: skip
    assert rows["q2"] == {"query": "hat", "system": "table", "mrr@10": 1.0}


def test_comparisons_are_paired_differences_of_the_second_system_to_the_first(result):
    (row,) = result.comparison_frame().filter(pl.col("metric") == "mrr@10").to_dicts()
    differences = result.values["better"]["mrr@10"] - result.values["worse"]["mrr@10"]
    assert (row["a"], row["b"]) == ("better", "worse")
    assert row["difference"] == approx(differences.mean())
    assert row["low"] < row["difference"] < row["high"]
    assert row["p"] <= row["p_adjusted"] < 0.05


def test_notebooks_show_a_table_and_a_figure(result):
    assert repr(result).startswith("Evaluation on 60 queries, ranking 60 titles\n")
    html = result._repr_html_()
    mean = f"{result.mean('better', 'ndcg@10'):.3f}"[1:]
    assert "<table>" in html
    assert mean in html
    assert "are 95 % intervals" in html
    figure = result.plot(["ndcg@10"])
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["worse", "better"]
    points = axis.containers[0].lines[0].get_xdata()
    assert points[1] == approx(result.mean("better", "ndcg@10"))
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(dssm_tf.UserError, match="there is no metric 'ndcg'"):
        result.plot(["ndcg"])


def test_ir_measures_computes_the_same_means_from_its_structures(result):
    qrels, runs = result.to_ir_measures()
    for system, run in runs.items():
        computed = ir_measures.calc_aggregate([ir_measures.RR @ 10], qrels, run)
        assert computed[ir_measures.RR @ 10] == approx(result.mean(system, "mrr@10"), abs=1e-6)


def test_ranx_computes_the_same_means_from_its_structures(result):
    ranx = pytest.importorskip("ranx")
    qrels, runs = result.to_ranx()
    for system, run in runs.items():
        assert ranx.evaluate(qrels, run, "mrr@10") == approx(result.mean(system, "mrr@10"))


def test_fractional_grades_are_refused_for_other_tools():
    judgments = [row._replace(grade=row.grade / 2) for row in JUDGMENTS]
    result = dssm_tf.evaluate(GOOD, judgments, metrics=["mrr@10"])
    with pytest.raises(dssm_tf.UserError, match=r"the grade of 'd2' for query 'q2' is 1\.5; other"):
        result.to_ir_measures()


def test_judgments_and_corpus_may_be_data_frames_of_either_names():
    expected = dssm_tf.evaluate(GOOD, JUDGMENTS, CORPUS).to_frame()
    judgments = pl.DataFrame(JUDGMENTS, [*JUDGMENTS[0]._fields], orient="row")
    corpus = pl.DataFrame(CORPUS, ["doc_id", "title"], orient="row")
    assert dssm_tf.evaluate(GOOD, judgments, corpus).to_frame().equals(expected)
    pyterrier = {"query_id": "qid", "doc_id": "docno", "title": "text", "grade": "label"}
    renamed = judgments.rename(pyterrier), corpus.rename(pyterrier, strict=False)
    assert dssm_tf.evaluate(GOOD, *renamed).to_frame().equals(expected)
    with pytest.raises(dssm_tf.UserError, match=r"the polars DataFrame has .* \(missing: grade\)"):
        dssm_tf.evaluate(GOOD, judgments.drop("grade"))


def test_systems_may_be_baselines_by_name_and_runs_frames():
    run = pl.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d2"], "score": [1, 2]})
    result = dssm_tf.evaluate(["bm25", GOOD], JUDGMENTS, CORPUS, runs={"mine": run})
    assert result.systems == ("bm25", "table", "mine")
    assert np.nanmean(result.values["mine"]["mrr@10"]) == 1
    with pytest.raises(dssm_tf.UserError, match="two systems are called 'table'"):
        dssm_tf.evaluate([GOOD, GOOD], JUDGMENTS)


@pytest.mark.long
def test_an_evaluation_writes_nothing_to_the_terminal():
    code = """
import dssm_tf
rows = ("1", "fox", "a", "red fox", 1), ("1", "fox", "b", "owl", 0)
judgments = [dssm_tf.Judgment(*row) for row in rows]
print(dssm_tf.evaluate("bm25", judgments, metrics=["mrr@10"]).mean("bm25", "mrr@10"))
"""
    assert python(code) == "1.0\n"  # which also asserts that standard error is empty
