"""Rows of a benchmark that are refitted, loaded, trained or resumed, and invalid flags."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from dssm_tf.benchmark.external import saved_training_log
from dssm_tf.benchmark.fit import KINDS, FitContext
from dssm_tf.benchmark.prepare import Inputs
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.overlap import log_overlap
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.compact import export_compact
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.training_log import TrainingLog
from tests.benchmark.colors import (
    RANDOM,
    TINY,
    benchmark,
    with_prior,
)
from tests.clicks import Click, write_data
from tests.runs import finished_run


def ranking_of(run, query):
    """The titles of a query, best first, with their scores."""
    rows = run.filter(pl.col("query") == query)
    return rows["title"].to_numpy(), rows["score"].to_numpy()


def test_parameters_that_need_a_refit_are_cross_validated(folder, tmp_path):
    out = tmp_path / "out"
    result, *_ = benchmark(folder, "--systems", "plsa", "--seeds", "1", "--tune", "map",
                          "--metrics", "map", "--out", str(out))  # fmt: skip
    inputs = Inputs(out / "work" / "inputs")
    facts = json.loads((out / "metrics.json").read_text("utf-8"))["systems"]["plsa"]["facts"][0]
    expected = np.full(len(result.fold), np.nan)
    for fold, chosen in enumerate(facts["chosen"]):
        ranker = BASELINES["plsa"](seed=0, **chosen["values"]).fit(inputs.clicks(), inputs.titles())
        judgments = read_judgments(folder / "judgments.tsv")
        corpus = read_corpus(folder / "corpus.tsv")
        values = evaluate({"plsa": ranker}, judgments, corpus, metrics=["map"]).values
        expected[result.fold == fold] = values["plsa"]["map"][result.fold == fold]
    row, _ = result.rows
    assert row.values("map") == pytest.approx(expected, nan_ok=True, abs=1e-6)
    assert facts["final"].keys() == {"topics", *BASELINES["plsa"].search_space}
    topics = facts["final"]["topics"]
    (model,) = out.glob("work/systems/plsa*/model")
    assert BASELINES["plsa"].load(model).topics == topics


@pytest.mark.long
def test_finished_systems_are_measured_without_being_trained_again(
    folder, benchmark_output, tmp_path
):
    data = write_data(tmp_path / "data", [Click("orange hat", "Red Hat", 5)], validation=())
    run = finished_run(tmp_path / "run", data, TINY)
    version = export_saved_model(run, tmp_path / "models")
    small = export_compact(run, tmp_path / "compact", "lstm")
    (bm25,) = (folder / "out").glob("work/systems/bm25-[0-9a-f]*/model")
    out = tmp_path / "out"
    result, *_ = benchmark(
        folder, "--systems", "", "--model", str(run), "--model", f"served={version.parent}",
        "--model", f"small={small}", "--model", f"words={bm25}", "--out", str(out),
    )  # fmt: skip
    rows = {row.name: row for row in result.rows}
    assert [row.kind for row in result.rows] == ["model"] * 8
    for name in ("run", "served", "small"):  # ranked by the cosine, although the run has a prior
        assert rows[name].seeds[0].run["score"].abs().max() < 1.001
        assert rows[f"{name}+prior"].seeds[0].facts["chosen"]
    for name in ("served", "small"):
        assert rows[name].values("ndcg@10") == pytest.approx(
            rows["run"].values("ndcg@10"), nan_ok=True
        )
    # The costs of a run are those of its compact model, whose name is in one of its files.
    megabytes = [rows[name].cost("megabytes") for name in ("run", "small")]
    assert megabytes[0] == pytest.approx(megabytes[1], abs=1e-4)
    # The run's query ids show that its log has no judged query; a baseline has no query ids.
    overlaps = json.loads((out / "metrics.json").read_text("utf-8"))["systems"]
    for name in ("run", "served"):
        assert overlaps[name]["log_overlap"] == {"queries": 0, "pairs": 0, "marked": False}
    assert overlaps["words"]["log_overlap"] == {"queries": None, "pairs": None, "marked": False}
    assert "training_seconds" not in rows["run"].seeds[0].facts
    models = json.loads((out / "metrics.json").read_text("utf-8"))["settings"]["models"]
    assert set(models) == {"run", "served", "small", "words"}


def test_a_saved_model_has_the_queries_and_pairs_that_it_was_trained_on(tmp_path):
    data = write_data(tmp_path / "data", [Click("hat", "red hat", 5)], validation=())
    judgments = "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\tHAT!\td00\tred hat\t1\n"
    path = tmp_path / "judgments.tsv"
    path.write_text(judgments + "q2\tbox\td02\tred box\t1\n")
    task = RankingTask(read_judgments(path), None)
    run = finished_run(tmp_path / "run", data, TINY)
    log = saved_training_log(run)
    assert log.has_queries(task.queries).tolist() == [query == "HAT!" for query in task.queries]
    pairs = log.has_pairs(["hat", "hat", "box"], ["Red Hat", "red box", "red box"])
    assert pairs.tolist() == [True, False, False]
    assert log_overlap(task, log) == (1, 1, True)
    # The benchmark's own log has the same query and pair, so the model has no advantage.
    benchmark_log = TrainingLog.from_clicks([("hat", "red hat", 1.0)], FOLDED)
    assert log_overlap(task, log, benchmark_log) == (1, 1, False)
    other = TrainingLog.from_clicks([("hat", "red box", 1.0)], FOLDED)
    assert log_overlap(task, log, other) == (1, 1, True)
    (run / "pair_ids.npy").unlink()
    assert log_overlap(task, saved_training_log(run)) == (1, None, True)
    job = {"name": "mine", "base": str(run)}
    with pytest.raises(UserError, match="expected a directory that `dssm train` or `dssm export`"):
        KINDS["model"](FitContext(job | {"base": str(tmp_path)}, None, task, tmp_path))


@pytest.mark.long
def test_a_second_call_fits_only_new_systems(folder, benchmark_output):
    modified = {
        path: path.stat().st_mtime_ns
        for path in (folder / "out" / "work" / "systems").glob("*/run.parquet")
    }
    assert len(modified) == 8
    result, *_ = benchmark(
        folder, "--systems", f"bm25,{folder / 'tiny.yaml'}", "--seeds", "1", "--tune", "map",
        "--metrics", "recall@10", "--sweep", RANDOM, "--out", str(folder / "out"),
    )  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in modified} == modified
    # The compact model of a tower is only for its size and latency.
    assert not [*(folder / "out" / "work" / "systems").rglob("compact")]
    assert [row.name for row in result.rows] == with_prior("bm25", "tiny", RANDOM)
    tiny = result.rows[2]
    assert tiny.error is None
    assert tiny.seeds[0].facts["epochs"] == 1
    assert list(result.metrics) == ["recall@10"]
    # The row has the model's cosines. The next row adds the prior, with a weight that is tuned here
    # and differs from that of the run.
    (model,) = (folder / "out").glob("work/systems/tiny-seed0-*/model")
    ranker, title_texts = SemanticRanker.load(model), result.task.titles
    query = int(np.flatnonzero(result.fold == 0)[0])
    cosines = (ranker.encode_queries([result.task.queries[query]]) @
               ranker.encode_titles(title_texts).T)[0]  # fmt: skip
    titles, scores = ranking_of(tiny.seeds[0].run, query)
    assert scores == pytest.approx(cosines[titles], abs=1e-6)
    (tiny_prior,) = result.rows[3].seeds
    weight = tiny_prior.facts["chosen"][0]["values"]["prior"]
    titles, scores = ranking_of(tiny_prior.run, query)
    log_prior = Inputs(folder / "out" / "work" / "inputs").prior()(result.task.titles)
    expected = cosines + weight * log_prior
    assert scores == pytest.approx(expected[titles], abs=1e-5)
    assert len(list((folder / "out" / "work" / "systems").glob("*/run.parquet"))) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "ndcg"], "metric 'ndcg': expected one of"),
        (["--seeds", "0"], "--seeds, --jobs: expected 1 or more"),
        (["--against", "bm52"], "--against bm52: there is no such row; the rows are bm25"),
        (["--runs", "bm25={runs}/bm25.trec"], "two rows are called 'bm25'"),
        (["--runs", "nowhere.trec"], "nowhere.trec cannot be read"),
    ],
)
def test_invalid_flags_are_refused_before_any_fit(folder, benchmark_output, arguments, message):
    before = set((folder / "out" / "work" / "systems").iterdir())
    arguments = [argument.format(runs=folder / "out" / "runs") for argument in arguments]
    with pytest.raises(UserError, match=message):
        benchmark(folder, "--systems", "bm25", *arguments, "--out", str(folder / "out"))
    assert set((folder / "out" / "work" / "systems").iterdir()) == before


def test_a_directory_with_other_files_is_not_changed(folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="contains no work, which this command writes"):
        benchmark(folder, "--systems", "bm25", "--out", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_benchmark_of_one_title_and_one_query_has_results(tmp_path):
    (tmp_path / "clicks.tsv").write_text("query\ttitle\nhat\tRed Hat\nred\tRed Hat\n")
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\nd1\tRed Hat\n")
    (tmp_path / "judgments.tsv").write_text(
        "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\thats\td1\tRed Hat\t1\n"
    )
    result, output, _ = benchmark(
        tmp_path, "--systems", "bm25,popularity,lda", "--seeds", "1",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert {*result.summary().filter(metric="ndcg@1")["mean"]} == {1.0}
    assert {test.p for test in result.comparisons} == {1.0}
    assert "bm25 chose nothing: fewer than two different queries" in output
    (lda,) = tmp_path.glob("out/work/systems/lda*/model")
    assert BASELINES["lda"].load(lda).topics in BASELINES["lda"].refit_search_space["topics"]
