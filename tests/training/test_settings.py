"""`dssm train` under other settings, and those it refuses beforehand."""

from __future__ import annotations

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config, parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training import ranking_validation
from dssm_tf.training.devices import read_cluster
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.resolve import resolve_config
from dssm_tf.training.validation import ValidationTask, encode_task
from tests.clicks import Click, click_log, write_data
from tests.rounding import rounding
from tests.training.configuration import BATCH, RECORDED, config, trained


def test_a_tower_trained_in_reduced_precision_is_measured_in_float32(data, folder, monkeypatch):
    measured = []

    def watched(encode, task):
        measured.append(encode_task(encode, task))
        return measured[-1]

    monkeypatch.setattr(ranking_validation, "encode_task", watched)
    changes = {"training__precision": "mixed_bfloat16", "training__epochs": 1}
    result = trained(data, folder / "bfloat16", **changes)
    assert np.isfinite(result.history[0]["loss"])
    ranker = SemanticRanker.load(folder / "bfloat16")
    task = ValidationTask.from_clicks(Preprocessed(data.path), 2000, 20000)
    expected = ranker.encode_queries(task.queries), ranker.encode_titles(task.titles)
    # Vectors of some 20 trigrams through 8 units and 6; bfloat16 would be off by some 2^-8.
    for found, vectors in zip(measured[0], expected, strict=True):
        assert found == approx(vectors, abs=rounding(34, 2))


def test_data_without_a_validation_part_keeps_the_last_epoch(tmp_path):
    data = write_data(tmp_path / "data", click_log(24), validation=())
    result = trained(
        data, tmp_path / "run", training__monitor="ndcg@10", training__epochs=3,
        ranking={"prior": "auto"},
        optimizer={"name": "sgd", "learning_rate": 50.0},  # steps so large that the loss rises
    )  # fmt: skip
    assert (result.epochs, result.best_epoch, result.ndcg, result.prior_weight) == (3, 3, {}, 0)
    assert not result.convergence_warning
    assert "no validation part" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")
    assert len(SemanticRanker.load(tmp_path / "run").score("red fox", ["red fox", "owl"])) == 2


class Recorder(keras.callbacks.Callback):
    """Records when it is called, and the logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.calls, self.logs = [], []

    def on_train_begin(self, logs=None):
        self.calls.append("train begin")

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(f"epoch {epoch}")
        self.logs.append(dict(logs))

    def on_train_end(self, logs=None):
        self.calls.append("train end")


REFITTED = {
    "training__epochs": 3,
    "training__patience": 3,
    "training__refit": True,
    "training__averaging": 0.5,
    "optimizer": {"name": "nesterov", "learning_rate": 0.01},
    "loss": {"gamma": "auto"},
}


@pytest.fixture(scope="module")
def refitted(data, folder):
    """A run that is refitted, with averages and a gamma that it chooses.

    Beside it the calls of a callback, each phase's weights before and after, and its updates, as
    the schedule counts them and as they were made.
    """
    phases, updates, fit = [], [], TrainingLoop.fit

    def watched(self, *arguments, **named):
        best_weights = fit(self, *arguments, **named)
        phases.append((named.get("weights"), best_weights))
        optimizer = self.model.optimizer
        updates.append((int(optimizer.total_steps), int(optimizer.iterations)))
        return best_weights

    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, "fit", watched)
        result = trained(data, folder / "refitted", callbacks=[recorder], **REFITTED)
    return folder / "refitted", result, recorder, phases, updates


def test_callbacks_follow_the_fit_and_the_refit(refitted):
    run, result, recorder, *_ = refitted
    assert result.best_epoch == 2  # the third does worse
    assert recorder.calls == [
        "train begin", "epoch 0", "epoch 1", "epoch 2", "train end",
        "train begin", "epoch 0", "epoch 1", "train end",
    ]  # fmt: skip
    assert all("loss" in logs for logs in recorder.logs)
    assert [logs.get("ndcg@10") is not None for logs in recorder.logs] == [True] * 3 + [False] * 2
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert "; then trained on, on training and validation part, for two thirds as many" in card


def test_the_schedule_counts_the_updates_of_the_whole_training(refitted, data):
    """The momentum changes 2 % after the start and 2 % before the end of all epochs."""
    pairs = {split: len(found) for split, found in data.pairs.items()}
    # Three epochs on the training part, then two thirds of the best, 2, on all records.
    first = 3 * math.ceil(pairs["train"] / BATCH)
    second = 2 * math.ceil((pairs["train"] + pairs["validation"]) / BATCH)
    assert refitted[-1] == [(first, first), (second, second)]


def test_going_on_starts_from_the_best_epoch_s_averages(refitted):
    (none, first), (given, last) = refitted[-2]
    assert none is None
    assert all(np.array_equal(*pair) for pair in zip(given, first.weights, strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(given, last.weights, strict=True))
    moved = [float(np.abs(a - b).max()) for a, b in zip(given, last.weights, strict=True)]
    assert max(moved) < 0.25  # a handful of steps of .01 from there


def test_the_run_says_which_gamma_was_chosen_and_is_found_finished(refitted, data):
    run, *_ = refitted
    assert load_config(run / "config.yaml").loss.gamma == 10
    assert trained(data, run, **REFITTED).seconds == 0
    assert dssm_tf.ClickData(data.path, config(loss={"gamma": "auto"})).loss().gamma == 10


@pytest.mark.slow
def test_compiled_by_xla_the_losses_are_the_same(data, folder):
    same = {"tower__dropout": 0.0, "shared_towers": True}
    plain, compiled = (
        trained(data, folder / f"xla-{choice}", training__xla=choice, **same).history
        for choice in (False, True)
    )
    for one, other in zip(plain, compiled, strict=True):
        assert other["loss"] == approx(one["loss"], rel=1e-4)
        assert other["val_loss"] == approx(one["val_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"negatives": {"recorded": 5}}, r"negatives.recorded: 5 .* holds 4 .*--negatives 5"),
        ({"negatives": {"in_batch": False}}, "nothing to tell a click from. Set negatives.in_"),
        ({"negatives": {"mined": 2, "mined_from": "no.tsv"}}, "no.tsv cannot be read"),
        ({"training__folds": 1_000}, r"training.folds: 1000 folds of \d+ queries"),
        ({"optimizer": {"name": "adamm"}}, "optimizer.name must be one of .*mean 'adam'"),
        ({"optimizer": {"options": {"beta": 1}}}, "optimizer: .*'beta': 1.* was refused by adam"),
    ],
)
def test_settings_that_cannot_train_are_refused_before_anything_is_written(
    data, tmp_path, changes, says
):
    with pytest.raises(UserError, match=says):
        trained(data, tmp_path / "run", **changes)
    assert changes.get("training__folds") or not (tmp_path / "run").exists()


def test_records_without_negatives_and_no_other_rivals_are_refused(tmp_path):
    log = [Click(query, "red fox") for query in ("fox", "red", "fur")]
    data = write_data(tmp_path / "data", log, validation=())
    with pytest.raises(UserError, match="nothing to tell a click from"):
        trained(data, tmp_path / "run", negatives=RECORDED)
    none = write_data(tmp_path / "none", log, validation={"fox", "red", "fur"})
    with pytest.raises(UserError, match="holds no training records"):
        trained(none, tmp_path / "run")


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_an_unusable_tf_config_is_explained(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="TF_CONFIG is not usable"):
        read_cluster()


@pytest.mark.parametrize(
    ("titles", "gamma"),
    [(1, 10.0), (2_500, 10.0), (4_000, 16.0), (6_250, 25.0), (54_667, 25.0)],
)
def test_an_automatic_gamma_grows_with_the_catalogue(data, titles, gamma):
    raw = config(loss={"gamma": "auto"})
    read = Preprocessed(data.path)
    read.spec = replace(read.spec, rows={"titles": [titles]})
    assert resolve_config(parse_config(raw), read)[0].loss.gamma == gamma
    fixed = parse_config(config(loss={"gamma": 7}))
    assert resolve_config(fixed, read)[0] == fixed
