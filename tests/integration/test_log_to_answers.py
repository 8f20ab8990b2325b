"""From a click log to answers: every step in order, on a few hundred bundled questions."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml

from dssm_tf.cli import main
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from pipelines import preprocess

CONFIG = {
    "tower": {"name": "dssm", "widths": [48]},
    "shared_towers": True,
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 6, "batch_size": 32, "xla": False},
}
LOGGED, JUDGED = 200, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The first questions of the training splits as a log, of the test split as judgments."""
    folder = tmp_path_factory.mktemp("integration")
    table = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()[1:]]
    log = [(query, title) for _, split, query, title in rows if split != "test"][:LOGGED]
    judged = [row for row in rows if row[1] == "test"][:JUDGED]
    titles = dict.fromkeys([title for _, title in log] + [row[3] for row in judged])
    ids = {title: f"t{i}" for i, title in enumerate(titles)}
    text = "query\ttitle\n" + "".join(f"{query}\t{title}\n" for query, title in log)
    (folder / "clicks.tsv").write_text(text, "utf-8")
    write_judgments(
        folder / "judgments.tsv",
        [Judgment(number, query, ids[title], title, 1.0) for number, _, query, title in judged],
    )
    write_corpus(folder / "corpus.tsv", [CorpusTitle(ids[title], title) for title in titles])
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    return folder


@pytest.fixture(scope="module")
def done(folder) -> Path:
    """The folder after every step."""

    def inside(name: str) -> str:
        return str(folder / name)

    assert preprocess.run(["--input", inside("clicks.tsv"), "--output", inside("data")]) == 0
    assert main(["train", "--config", inside("config.yaml"), "--data", inside("data"),
                 "--out", inside("run")]) == 0  # fmt: skip
    assert main(["evaluate", "--model", inside("run"), "--judgments", inside("judgments.tsv"),
                 "--corpus", inside("corpus.tsv"), "--out", inside("evaluation")]) == 0  # fmt: skip
    assert main(["export", "--model", inside("run"), "--out", inside("models")]) == 0
    return folder


def test_the_model_beats_chance_by_far_and_metrics_say_so(done):
    metrics = json.loads((done / "evaluation" / "metrics.json").read_text("utf-8"))
    assert metrics.keys() >= {"systems", "tests"}
    assert set(metrics["systems"]) == {"bm25", "run"}
    for values in metrics["systems"].values():
        assert {"ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "recall@10", "queries"} <= values.keys()
        assert values["queries"] == JUDGED
    (test, *_) = metrics["tests"]
    assert {"a", "b", "metric", "p", "p_adjusted", "difference", "ci95"} <= test.keys()
    corpus = len((done / "corpus.tsv").read_text("utf-8").splitlines()) - 1
    # A random order finds the one title among the first ten with this probability, and NDCG@10
    # is at most that.
    chance = 10 / corpus
    (model,) = (values for name, values in metrics["systems"].items() if name != "bm25")
    assert model["ndcg@10"] > 5 * chance


def test_the_exported_model_answers_as_the_run_does(done):
    titles = [
        line.split("\t")[1] for line in (done / "corpus.tsv").read_text("utf-8").splitlines()
    ][1:]
    query = "what currency do they use in germany"
    score = tf.saved_model.load(str(done / "models" / "dssm" / "1")).signatures["score"]
    found = score(queries=tf.constant([query]), titles=tf.constant(titles))["scores"].numpy()
    wanted = SemanticRanker.load(done / "run").score(query, titles)
    assert np.allclose(found, wanted, atol=1e-5)
    assert titles[int(np.argmax(found))] == titles[int(np.argmax(wanted))]


def test_evaluation_leaves_runs_and_judgments_other_tools_read(done):
    runs = list((done / "evaluation" / "runs").glob("*.trec"))
    assert len(runs) == 2
    assert all(len(line.split()) == 6 for line in runs[0].read_text("utf-8").splitlines())
    assert (done / "evaluation" / "report.html").read_text("utf-8").startswith("<!doctype html>")
