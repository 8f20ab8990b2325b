"""`dssm benchmark --judged-only`: the table of judged titles only."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import Judgment, read_corpus, read_judgments, write_judgments
from dssm_tf.tables.trec import read_run
from tests.benchmark.colors import RANDOM, TITLES, arguments, benchmark
from tests.reference import judged_titles as reference

GRADES = {0: 2.0, 7: 1.0, 12: 0.0, 20: 0.0, 23: 0.33}  # by the distance of a title's index


@pytest.fixture(scope="module")
def graded(folder, tmp_path_factory):
    """The folder of the benchmark with five judged titles per query."""
    graded = tmp_path_factory.mktemp("graded")
    for path in folder.glob("*.*"):
        shutil.copy(path, graded)
    judgments = []
    for row in read_judgments(folder / "judgments.tsv")[:20]:
        for distance, grade in GRADES.items():
            index = (TITLES.index(row.title) + distance) % len(TITLES)
            judged = Judgment(row.query_id, row.query, f"d{index:02d}", TITLES[index], grade)
            judgments.append(judged)
    write_judgments(graded / "judgments.tsv", judgments)
    return graded


@pytest.fixture(scope="module")
def result(graded):
    evaluation, output, _ = benchmark(graded, *arguments(graded), "--judged-only")
    return evaluation, output


def test_each_row_is_measured_on_its_ranking_without_other_titles(result, graded):
    evaluation, _ = result
    only = evaluation.judged_only
    grades = {}
    for row in read_judgments(graded / "judgments.tsv"):
        grades.setdefault(row.query_id, {})[row.doc_id] = row.grade
    assert only.systems == evaluation.systems
    for row in only.rows:
        # Each run has all 25 titles, except the external one.
        run = read_run(graded / "out" / "runs" / f"{row.name.replace('=', '_')}.trec")
        for query, query_id in enumerate(only.task.query_ids):
            scores = run.get(query_id, {})
            ranked = sorted(scores, key=lambda doc_id, scores=scores: -scores[doc_id])
            ranking = [grades[query_id].get(doc_id) for doc_id in ranked]
            missing = [grades[query_id][doc] for doc in grades[query_id].keys() - scores.keys()]
            expected = reference.condensed_ndcg(ranking, 3, missing)
            value = row.seeds[0].values["ndcg@3"][query]
            assert value == pytest.approx(expected, abs=1e-6), (row.name, query_id)


def test_concordance_of_each_fold_uses_the_parameters_of_that_fold(result, graded):
    evaluation, _ = result
    corpus = read_corpus(graded / "corpus.tsv")
    fitted = BASELINES["bm25"]().fit([], [row.title for row in corpus])
    bm25 = json.loads((graded / "out" / "metrics.json").read_text("utf-8"))["systems"]["bm25"]
    judgments = read_judgments(graded / "judgments.tsv")
    (values,) = [row.values("concordance") for row in evaluation.judged_only.rows
                 if row.name == "bm25"]  # fmt: skip
    for fold, chosen in enumerate(bm25["facts"][0]["chosen"]):
        ranker = fitted.with_parameters(**chosen["values"])
        expected = evaluate(ranker, judgments, corpus, judged_only=True).judged_only
        in_fold = evaluation.fold == fold
        assert in_fold.any()
        np.testing.assert_array_equal(
            values[in_fold], expected.values[ranker.name]["concordance"][in_fold]
        )


def test_the_same_pairs_of_rows_are_tested_in_both_tables(result):
    evaluation, output = result
    row_pairs, row_pairs_on_judged_titles = (
        {(test.a, test.b) for test in tests}
        for tests in (evaluation.comparisons, evaluation.judged_only.comparisons)
    )
    assert row_pairs == row_pairs_on_judged_titles
    usual, judged_only = output.split("Judged titles only:")
    assert "judged@10" in evaluation.metrics
    assert "Judged@10" in usual
    assert "Concordance" in judged_only
    assert "broken" not in judged_only  # it failed


def test_random_systems_have_a_spread_in_both_tables(result, graded):
    metrics = json.loads((graded / "out" / "metrics.json").read_text("utf-8"))["judged_only"]
    entry = metrics["systems"][RANDOM]
    a, b = entry["seeds"]["concordance"]
    assert entry["concordance"] == pytest.approx((a + b) / 2)
    assert entry["spread"]["concordance"] == pytest.approx(abs(a - b) / np.sqrt(2))


def test_a_finished_fit_without_a_condensed_run_is_repeated(result, graded):
    (finished,) = (graded / "out" / "work" / "systems").glob("bm25-*/condensed.parquet")
    finished.unlink()
    again, _, _ = benchmark(graded, *arguments(graded), "--judged-only")
    assert finished.exists()
    expected = result[0].judged_only.summary()
    assert again.judged_only.summary().equals(expected)
