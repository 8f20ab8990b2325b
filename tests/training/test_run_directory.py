"""The files of a run of `dssm train`."""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf
from pytest import approx

from dssm_tf.config import load_config, parse_config
from dssm_tf.data.format import Spec
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.run_files import load_titles
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training.validation import ValidationTask, score_task
from tests.training.configuration import CONFIG, EPOCHS, batches_of
from tests.training.task_vectors import vectors_with_scores


def test_a_run_has_all_files_that_are_needed_to_use_and_to_repeat_it(run, data):
    out, _ = run
    files = {path.name for path in out.iterdir()}
    assert files == {
        "config.yaml", "spec.json", "vocabulary.txt", "titles.tsv", "model.weights.h5",
        "history.json", "versions.json", "ranking.json", "MODEL_CARD.md",
        "SHA256SUMS", "query_ids.npy", "pair_ids.npy",
    }  # fmt: skip
    assert load_config(out / "config.yaml") == parse_config(CONFIG)
    assert (out / "vocabulary.txt").read_bytes() == (data.path / "vocabulary.txt").read_bytes()
    assert Spec.load(out) == data.spec
    assert {title.text for title in load_titles(out)} == {*data.titles}
    versions = json.loads((out / "versions.json").read_text("utf-8"))
    assert versions["tensorflow"] == tf.__version__
    assert {"python", "keras", "numpy", "dssm-tf"} <= versions.keys()


def test_the_history_has_losses_and_ndcg_of_each_epoch(run):
    out, result = run
    assert json.loads((out / "history.json").read_text("utf-8")) == result.history
    assert len(result.history) == result.epochs == EPOCHS
    for epoch in result.history:
        ndcg = {f"{prefix}ndcg@{k}" for k in (1, 3, 10) for prefix in ("", "low ", "high ")}
        assert epoch.keys() == {"loss", "val_loss", *ndcg}
        assert 0 <= epoch["low ndcg@1"] <= epoch["ndcg@1"] <= epoch["high ndcg@1"] <= 1
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_the_model_card_describes_the_model_the_data_and_the_validation(run, data):
    card = (run[0] / "MODEL_CARD.md").read_text("utf-8")
    assert card.startswith("# dssm\n")
    assert f"| pairs (query, clicked title) | {len(data.pairs['train'])} |" in card
    size = data.vocabulary.size
    assert f"| letter n-grams | {size:,} (vocabulary {data.vocabulary.fingerprint}) |" in card
    assert "but no text of a query. A guessed query" in " ".join(card.split())
    metrics = run[1].metrics
    interval = f"{metrics['low ndcg@1']:.3f} to {metrics['high ndcg@1']:.3f}"
    row = f"| ndcg@1 | {metrics['ndcg@1']:.4f} | {interval} | {metrics['similarity ndcg@1']:.4f} |"
    assert row in card
    assert f"These values are based on {metrics['queries']:.0f} queries, fewer than 200" in card


def test_the_weights_are_those_of_the_best_epoch(run, data):
    out, result = run
    ranker = SemanticRanker.load(out)
    losses = [epoch["val_loss"] for epoch in result.history]
    assert result.best_epoch == 1 + int(np.argmin(losses))
    settings = parse_config(CONFIG)
    batches = batches_of(settings, Preprocessed(data.path)).validation()
    # Seven held-out queries make one batch; their rows have weight 8/7, the padding row 0.
    ((inputs, targets, row_weights),) = batches.epochs(None, 0, 1)
    loss = ClickSoftmax()(targets, ranker.model(inputs), sample_weight=row_weights)
    assert float(loss) == approx(min(losses), rel=1e-5)


def test_the_saved_metrics_are_those_of_the_loaded_model(run, data):
    out, result = run
    ranker = SemanticRanker.load(out)
    task = ValidationTask.from_clicks(Preprocessed(data.path), 100, 100)
    saved = json.loads((out / "ranking.json").read_text("utf-8"))
    assert saved["prior_weight"] == ranker.prior_weight == result.prior_weight
    metrics = task.metrics_with_ci(
        vectors_with_scores(ranker.score_matrix(task.queries, task.titles))
    )
    by_similarity = task.ndcg(score_task(ranker.encoder, task))
    metrics |= {f"similarity {name}": value for name, value in by_similarity.items()}
    metrics |= {"queries": len(task.queries)}
    assert metrics == approx(saved["validation"])
    assert saved["validation"] == result.metrics
