"""`dssm train` with various settings, and settings that it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config, parse_config
from dssm_tf.config.scores import MaxSimConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.rules import NGRAM_KINDS, TextRules
from dssm_tf.training import loop, ranking_validation
from dssm_tf.training.devices import Devices, read_cluster
from dssm_tf.training.early_stopping import BestWeights
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.resolve import resolve_config
from dssm_tf.training.run_directory import Result
from dssm_tf.training.validation import ValidationTask, score_task
from tests.clicks import Click, click_log, write_data
from tests.rounding import rounding_bound
from tests.runs import finished_run
from tests.training.configuration import BATCH, RECORDED, config, equal, trained


@pytest.mark.long
def test_a_tower_trained_in_reduced_precision_is_validated_in_float32(data, folder, monkeypatch):
    measured = []

    def recorded(scorer, task):
        measured.append(score_task(scorer, task))
        return measured[-1]

    monkeypatch.setattr(ranking_validation, "score_task", recorded)
    changes = {"training__precision": "mixed_bfloat16", "training__epochs": 1}
    result = trained(data, folder / "bfloat16", **changes)
    assert np.isfinite(result.history[0]["loss"])
    ranker = SemanticRanker.load(folder / "bfloat16")
    task = ValidationTask.from_clicks(Preprocessed(data.path), 2000, 20000)
    expected = ranker.encode_queries(task.queries), ranker.encode_titles(task.titles)
    # Vectors of about 20 trigrams through 8 and 6 units; bfloat16 would differ by about 2^-8.
    for vectors, expected_vectors in zip(measured[0], expected, strict=True):
        assert vectors == approx(expected_vectors, abs=rounding_bound(34, 2))


@pytest.mark.long
def test_without_a_validation_split_the_last_epoch_is_kept(tmp_path):
    data = write_data(tmp_path / "data", click_log(24), validation=())
    result = trained(
        data, tmp_path / "run", training__monitor="ndcg@10", training__epochs=3,
        ranking={"prior": "auto"},
        optimizer={"name": "sgd", "learning_rate": 50.0},  # steps so large that the loss rises
    )  # fmt: skip
    assert (result.epochs, result.best_epoch, result.metrics, result.prior_weight) == (3, 3, {}, 0)
    assert not result.convergence_warning
    assert "no validation split" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")
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


class Phase(NamedTuple):
    """The fit or the refit of a run.

    Attributes:
        initial_weights: None for those of the model.
        best_weights: the callback.
        scheduled_updates: number of updates that the optimizer's schedule expects.
        updates: number of updates made.
    """

    initial_weights: list[np.ndarray] | None
    best_weights: BestWeights
    scheduled_updates: int
    updates: int


class RefittedRun(NamedTuple):
    """A refitted run, and a callback that recorded its calls."""

    directory: Path
    result: Result
    recorder: Recorder
    phases: list[Phase]


@pytest.fixture(scope="module")
def refitted(data, folder) -> RefittedRun:
    """A refitted run with moving averages and `gamma: auto`."""
    phases, fit = [], TrainingLoop.fit

    def recorded_fit(self, *arguments, **options):
        weights = options.get("weights")
        if weights is not None:  # they may be variables, which change later
            weights = [keras.ops.convert_to_numpy(weight).copy() for weight in weights]
        best_weights = fit(self, *arguments, **options)
        optimizer = self.model.optimizer
        updates = int(optimizer.total_steps), int(optimizer.iterations)
        phases.append(Phase(weights, best_weights, *updates))
        return best_weights

    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLoop, "fit", recorded_fit)
        result = trained(data, folder / "refitted", callbacks=[recorder], **REFITTED)
    return RefittedRun(folder / "refitted", result, recorder, phases)


def test_callbacks_are_called_in_the_fit_and_in_the_refit(refitted):
    result, recorder = refitted.result, refitted.recorder
    assert result.best_epoch == 2  # the third is worse
    assert recorder.calls == [
        "train begin", "epoch 0", "epoch 1", "epoch 2", "train end",
        "train begin", "epoch 0", "epoch 1", "train end",
    ]  # fmt: skip
    assert all("loss" in logs for logs in recorder.logs)
    assert [logs.get("ndcg@10") is not None for logs in recorder.logs] == [True] * 3 + [False] * 2
    card = (refitted.directory / "MODEL_CARD.md").read_text("utf-8")
    assert f"; then a refit on both splits, {result.refit_epochs} |" in card


def test_memory_is_trimmed_within_an_epoch_on_cpus_only(data, tmp_path, monkeypatch):
    trims = []
    monkeypatch.setattr(loop, "_SECONDS_PER_TRIM", -1.0)
    monkeypatch.setattr(loop, "trim_allocators", lambda: trims.append(1))
    steps = math.ceil(len(data.pairs["train"]) / BATCH)
    trained(data, tmp_path / "cpu", training__epochs=1)
    assert len(trims) == steps
    monkeypatch.setattr(Devices, "has_gpus", True)
    trained(data, tmp_path / "gpu", training__epochs=1, training__xla=False)
    assert len(trims) == steps


def test_the_schedule_has_the_number_of_updates_of_each_phase(refitted, data):
    """The momentum changes 2 % after the start and 2 % before the end of all epochs."""
    pairs = {split: len(pairs) for split, pairs in data.pairs.items()}
    # Three epochs on the training split, then two thirds of the best epoch, 2, on all records.
    first = 3 * math.ceil(pairs["train"] / BATCH)
    second = 2 * math.ceil((pairs["train"] + pairs["validation"]) / BATCH)
    updates = [(phase.scheduled_updates, phase.updates) for phase in refitted.phases]
    assert updates == [(first, first), (second, second)]


def test_the_refit_starts_from_the_averaged_weights_of_the_best_epoch(refitted):
    fit, refit = refitted.phases
    assert fit.initial_weights is None
    initial, last = refit.initial_weights, refit.best_weights.weights
    assert all(map(np.array_equal, initial, fit.best_weights.weights))
    assert not all(map(np.array_equal, initial, last))
    changes = [float(np.abs(a - b).max()) for a, b in zip(initial, last, strict=True)]
    assert max(changes) < 0.25  # a few steps of .01


def test_the_run_records_the_chosen_gamma_and_counts_as_finished(refitted, data):
    run = refitted.directory
    assert load_config(run / "config.yaml").loss.gamma == 10
    assert trained(data, run, **REFITTED).seconds == 0
    assert dssm_tf.ClickData(data.path, config(loss={"gamma": "auto"})).loss().gamma == 10


@pytest.mark.slow
def test_compiled_by_xla_the_losses_are_the_same(data, folder):
    changes = {"tower__dropout": 0.0, "shared_towers": True}
    plain, compiled = (
        trained(data, folder / f"xla-{choice}", training__xla=choice, **changes).history
        for choice in (False, True)
    )
    for epoch, expected in zip(compiled, plain, strict=True):
        assert epoch["loss"] == approx(expected["loss"], rel=1e-4)
        assert epoch["val_loss"] == approx(expected["val_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"negatives": {"recorded": 5}},
            r"negatives.recorded: received 5, .* has 4 .*negatives 5",
        ),
        ({"letter_ngrams": ["pairs"]}, "letter_ngrams: received pairs, .*ngrams pairs,trigrams"),
        ({"negatives": {"in_batch": False}}, "negatives: there are none. .* Set negatives.in_"),
        ({"negatives": {"mined": 2, "mined_from": "no.tsv"}}, "no.tsv cannot be read"),
        ({"training__folds": 1_000}, r"training.folds: 1000 folds of \d+ queries"),
        ({"optimizer": {"name": "adamm"}}, "optimizer.name must be one of .*mean 'adam'"),
        ({"optimizer": {"options": {"beta": 1}}}, "optimizer: adam does not accept .*'beta': 1"),
    ],
)
def test_settings_that_cannot_train_are_refused_before_anything_is_written(
    data, tmp_path, changes, message
):
    with pytest.raises(UserError, match=message):
        trained(data, tmp_path / "run", **changes)
    assert changes.get("training__folds") or not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_model_learns_from_the_letter_ngrams_that_its_configuration_names(folder, tmp_path, run):
    rules = TextRules(False, letter_ngrams=NGRAM_KINDS)
    data = write_data(tmp_path / "data", click_log(), rules=rules)
    trained(data, tmp_path / "trigrams")
    assert equal(tmp_path / "trigrams", run[0])  # of data with trigrams only
    finished_run(tmp_path / "two", data, config(letter_ngrams=["sorted_trigrams", "pairs"]))
    ranker = SemanticRanker.load(tmp_path / "two")
    assert ranker.vocabulary.rules.letter_ngrams == ("pairs", "sorted_trigrams")
    counts = data.vocabulary.counts
    assert ranker.vocabulary.size == counts["pairs"] + counts["sorted_trigrams"]
    # Swapped letters of one word: their pairs differ, their sorted trigrams do not.
    vectors = ranker.encode_titles(["whlae", "whale", "fox"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_records_without_any_negatives_are_refused(tmp_path):
    log = [Click(query, "red fox") for query in ("fox", "red", "fur")]
    data = write_data(tmp_path / "data", log, validation=())
    with pytest.raises(UserError, match="negatives: there are none"):
        trained(data, tmp_path / "run", negatives=RECORDED)
    validation_only = write_data(tmp_path / "none", log, validation={"fox", "red", "fur"})
    with pytest.raises(UserError, match="has no training records"):
        trained(validation_only, tmp_path / "run")


EVERY_TITLE = [Click(query, title) for query in ("fox", "red") for title in ("red fox", "fox fur")]


@pytest.mark.parametrize(
    "log",
    [
        [Click("red", "red fox")],
        [Click(query, "red fox") for query in ("fox", "red", "fur")],
        EVERY_TITLE,
    ],
)
@pytest.mark.parametrize("negatives", [{}, {"fresh": 2}, {"fresh": 2, "in_batch": False}])
def test_a_log_in_which_every_query_clicked_every_title_is_refused(tmp_path, log, negatives):
    data = write_data(tmp_path / "data", log, validation=())
    with pytest.raises(UserError, match=r"nothing to learn from: it has [12] clicked titles? in"):
        trained(data, tmp_path / "run", negatives=negatives)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_one_title_that_one_query_did_not_click_is_enough_to_train(tmp_path):
    data = write_data(tmp_path / "data", [*EVERY_TITLE, Click("owl", "fox fur")], validation=())
    assert trained(data, tmp_path / "run", training__epochs=1).history[0]["loss"] > 0


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
    [(40, 10.0), (2_500, 10.0), (4_000, 16.0), (6_250, 25.0), (54_667, 25.0)],
)
def test_an_automatic_gamma_grows_with_the_catalog(data, titles, gamma):
    raw = config(loss={"gamma": "auto"})
    preprocessed = Preprocessed(data.path)
    preprocessed.spec = replace(
        preprocessed.spec, rows=preprocessed.spec.rows | {"titles": [titles]}
    )
    assert resolve_config(parse_config(raw), preprocessed)[0].loss.gamma == gamma
    fixed = parse_config(config(loss={"gamma": 7}))
    assert resolve_config(fixed, preprocessed)[0] == fixed


def test_text_vectors_are_for_clicks_and_lists_and_not_for_a_catalog_alone():
    score = MaxSimConfig(text_cosine="auto")
    assert score.resolve(has_clicks=True).text_cosine == 0.15
    assert score.resolve(has_clicks=False).text_cosine == 0
    for has_clicks in (True, False):
        assert MaxSimConfig(text_cosine=0.4).resolve(has_clicks).text_cosine == 0.4
    with pytest.raises(ValueError, match="text_cosine is 'auto'; call resolve"):
        score.build(3)
