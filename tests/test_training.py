"""`dssm train`: what a run holds, that it repeats bit for bit, and where it stops."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.config import load_config, parse_config
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.distribution import Workers
from dssm_tf.errors import UserError
from dssm_tf.keeper import Keeper
from dssm_tf.losses import ClickSoftmax
from dssm_tf.run_directory import start_run
from dssm_tf.semantic_ranker import SemanticRanker, build_model
from dssm_tf.training import _Job, train
from dssm_tf.validation import ValidationTask
from tests.clicks import Data, click_log, read_examples, write_data, write_records
from tests.training_processes import TrainingProcesses, training_processes

EPOCHS, BATCH = 2, 8
CONFIG = {
    "tower": {"name": "dssm", "widths": [8, 6], "dropout": 0.2},
    "optimizer": {"learning_rate": 0.02},
    "training": {
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "xla": False,
        "monitor": "loss",
        "refit": False,
        "title_queries": False,
    },
}
# Rivals that do not depend on how a step is cut into parts.
RECORDED = {"recorded": 2, "in_batch": False}


def config(**changes):
    """The configuration with `section__key=value` changes."""
    raw = json.loads(json.dumps(CONFIG))
    for name, value in changes.items():
        *parents, last = name.split("__")
        section = raw
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return raw


def weights(run: Path) -> dict[str, np.ndarray]:
    found = {}
    with h5py.File(run / "model.weights.h5") as file:
        file.visititems(
            lambda name, one: (
                found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None
            )
        )
    return found


def equal(a: Path, b: Path) -> bool:
    """Whether two runs have the same weights, to the bit."""
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="module")
def data(folder) -> Data:
    return write_data(folder / "data", click_log())


@pytest.fixture(scope="module")
def processes(folder) -> TrainingProcesses:
    (folder / "processes").mkdir()
    with training_processes(folder / "processes") as found:
        yield found


@pytest.fixture(scope="module")
def run(folder, data):
    """An uninterrupted run in this process, and its result."""
    result = train(parse_config(CONFIG), data.path, folder / "run", quiet=True)
    return folder / "run", result


# -------------------------------------------------------------------------------- what a run holds


def test_a_run_holds_all_that_is_needed_to_use_and_to_repeat_it(run, data):
    out, _ = run
    files = {path.name for path in out.iterdir()}
    assert files == {
        "config.yaml", "feature_spec.json", "vocabulary.txt", "titles.tsv", "model.weights.h5",
        "history.json", "versions.json", "ranking.json", "MODEL_CARD.md", "logs",
    }  # fmt: skip
    assert load_config(out / "config.yaml") == parse_config(CONFIG)
    for name in ("vocabulary.txt", "titles.tsv", "feature_spec.json"):
        assert (out / name).read_bytes() == (data.path / name).read_bytes()
    versions = json.loads((out / "versions.json").read_text("utf-8"))
    assert versions["tensorflow"] == tf.__version__
    assert {"python", "keras", "numpy", "dssm-tf"} <= versions.keys()


def test_the_weights_are_those_of_the_towers_and_not_the_optimizers(run):
    out, _ = run
    ranker = SemanticRanker.load(out)
    numbers = sum(int(np.prod(weight.shape)) for weight in ranker.model.weights)
    assert numbers > 0
    floats = {k: v for k, v in weights(out).items() if np.issubdtype(v.dtype, np.floating)}
    assert sum(value.size for value in floats.values()) == numbers


def test_the_history_has_losses_and_ndcg_of_each_epoch(run):
    out, result = run
    assert json.loads((out / "history.json").read_text("utf-8")) == result.history
    assert len(result.history) == result.epochs == EPOCHS
    for epoch in result.history:
        assert epoch.keys() == {"loss", "val_loss", "ndcg@1", "ndcg@3", "ndcg@10"}
        assert 0 <= epoch["ndcg@1"] <= 1
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_tensorboard_finds_the_curves(run):
    out, result = run
    found = {}
    for path in (out / "logs").rglob("*tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == "epoch_loss":
                    found[path.parent.name, event.step] = float(tf.make_ndarray(value.tensor))
    for number, epoch in enumerate(result.history):
        assert found["train", number] == approx(epoch["loss"])
        assert found["validation", number] == approx(epoch["val_loss"])


def test_the_model_card_tells_what_was_trained_on_what(run, data):
    card = (run[0] / "MODEL_CARD.md").read_text("utf-8")
    assert card.startswith("# dssm\n")
    assert f"| pairs (query, clicked title) | {data.spec.records['train']} |" in card
    assert data.vocabulary.fingerprint in card
    assert f"| ndcg@1 | {run[1].ndcg['ndcg@1']:.4f} |" in card


def test_the_kept_weights_are_those_of_the_best_epoch(run, data):
    out, result = run
    ranker = SemanticRanker.load(out)
    losses = [epoch["val_loss"] for epoch in result.history]
    assert result.best_epoch == 1 + int(np.argmin(losses))
    batches = ClickBatches(data.path, ("validation",), BatchOptions(batch_size=BATCH, negatives=0))
    # Seven held-out queries make one batch; its rows weigh 8/7 each and the eighth nothing.
    ((inputs, offsets, row_weights),) = batches.epoch()
    loss = ClickSoftmax(10.0)(offsets, ranker.model(inputs), sample_weight=row_weights)
    assert float(loss) == approx(min(losses), rel=1e-5)


def test_the_ranking_written_down_is_the_one_the_loaded_model_gives(run, data):
    out, result = run
    ranker = SemanticRanker.load(out)
    task = ValidationTask.load(data.path, 100, 100)
    kept = json.loads((out / "ranking.json").read_text("utf-8"))
    assert kept["prior_weight"] == ranker.prior_weight == result.prior_weight
    found = task.ndcg(ranker.score_matrix(task.queries, task.titles))
    assert found == approx(kept["validation"])
    assert found == approx(result.ndcg)


# --------------------------------------------------------------------------- the same, bit for bit


def test_a_seed_gives_the_same_weights_to_the_bit_in_another_process(run, data, folder, processes):
    found = processes.train(CONFIG, data.path, folder / "again")
    assert found.result["history"] == run[1].history
    assert equal(folder / "again", run[0])


KILLED = config(
    tower__ngram_dropout=0.1,
    negatives={"recorded": 2, "in_batch": True, "logq": 0.5},
    # Too large, so that an early epoch stays the best and its weights must survive, too.
    optimizer__learning_rate=1.5,
    training__monitor="ndcg@10",
    training__epochs=3,
    training__averaging=0.5,
    training__click_weight="log",
)
STEPS = 6  # 41 records in batches of 8
ANYWHERE = int(np.random.default_rng().integers(1, STEPS))


@pytest.mark.parametrize(
    ("refit", "moments"),
    [
        (
            False,
            [
                ("titles.tsv", 1),  # making the run's directory
                ("batch", STEPS + ANYWHERE),  # in the second epoch
                ("fit.npz", 2),  # saving the third epoch
                ("versions.json", 1),  # with the weights written, and half of the rest
            ],
        ),
        pytest.param(
            True,
            [
                ("config.yaml", 1),
                ("batch", ANYWHERE),  # in the first epoch: nothing is saved yet
                ("fit.npz", 1),
                ("fit.npz", 2),
                ("batch", 2 * STEPS + ANYWHERE),  # training again on all records, or nearly there
                ("refit.npz", 1),
                ("model.weights.h5", 1),
                ("ranking.json", 1),
            ],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["fit", "refit"],
)
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(
    data, folder, processes, refit, moments
):
    raw = KILLED | {"training": KILLED["training"] | {"refit": refit}}
    whole, killed = folder / f"whole-{refit}", folder / f"killed-{refit}"
    uninterrupted = processes.train(raw, data.path, whole)
    assert uninterrupted.result["refitted"] == refit
    for moment in moments:
        outcome = processes.train(raw, data.path, killed, die_at=moment)
        assert outcome.signal == signal.SIGKILL, (moment, outcome)
        assert not (killed / "ranking.json").exists()
    finished = processes.train(raw, data.path, killed)
    assert finished.result["history"] == uninterrupted.result["history"], moments
    assert equal(whole, killed), moments
    for name in ("ranking.json", "history.json", "MODEL_CARD.md"):
        assert (whole / name).read_text("utf-8") == (killed / name).read_text("utf-8")
    assert not (killed / "state").exists()


def test_a_killed_export_leaves_no_version(run, folder, processes):
    killed = processes.export(run[0], folder / "models", die_at=("1", 1))
    assert killed.signal == signal.SIGKILL
    assert not [path for path in (folder / "models" / "dssm").glob("*") if path.name.isdigit()]


# ---------------------------------------------------------------------------- several devices


def test_two_devices_take_the_same_steps_as_one(data, folder, processes):
    # The threshold is below most gradients: clipping what one replica sees would differ.
    optimizer = {"name": "nesterov", "learning_rate": 0.5, "clip_norm": 0.05,
                 "options": {"momentum": 0.9}}  # fmt: skip
    raw = config(negatives=RECORDED, tower__dropout=0.0, optimizer=optimizer, training__epochs=1)
    runs = [
        processes.start(raw, data.path, folder / f"devices-{devices}", devices=devices)
        for devices in (1, 2)
    ]
    one, two = (each.wait().result["history"][0] for each in runs)
    assert two == approx(one, rel=1e-5)
    alone, together = (weights(folder / f"devices-{devices}") for devices in (1, 2))
    assert alone.keys() == together.keys()
    for key, value in alone.items():
        assert together[key] == approx(value, abs=2e-6), key


def test_a_batch_size_that_the_devices_cannot_share_is_a_message(data, folder, processes):
    raw = config(training__batch_size=7)
    found = processes.train(raw, data.path, folder / "odd", devices=2)
    assert "training.batch_size: 7 cannot be cut into 2 equal parts" in found.error


# ------------------------------------------------------------------------- when a run stops or not


@pytest.fixture(scope="module")
def standing_still(data, folder):
    """A run whose steps are too small to change anything, with another seed than the others."""
    raw = config(
        optimizer={"name": "sgd", "learning_rate": 1e-12},
        training__epochs=9, training__patience=2, training__monitor="ndcg@10", training__seed=1,
    )  # fmt: skip
    return folder / "still", train(parse_config(raw), data.path, folder / "still", quiet=True)


def test_training_stops_when_patience_runs_out_and_keeps_the_best(standing_still):
    # The first epoch is the best there is; two more bring nothing better.
    result = standing_still[1]
    assert (result.epochs, result.best_epoch) == (3, 1)


def test_another_seed_starts_from_other_weights(standing_still, data):
    def initial(seed):
        keras.utils.set_random_seed(seed)
        return build_model(parse_config(CONFIG), data.vocabulary.size).get_weights()

    found = SemanticRanker.load(standing_still[0]).model.get_weights()
    assert all(a == approx(b, abs=1e-9) for a, b in zip(found, initial(1), strict=True))
    assert not all(a == approx(b, abs=1e-3) for a, b in zip(found, initial(0), strict=True))


def test_a_loss_that_is_not_a_number_stops_and_the_last_good_epoch_is_kept(
    run, data, folder, monkeypatch
):
    out = folder / "nan"
    sound = Keeper.on_epoch_end

    def poison(keeper, epoch, logs=None):
        sound(keeper, epoch, logs)
        keeper.model.trainable_weights[0].assign_add(
            tf.fill(keeper.model.trainable_weights[0].shape, float("nan"))
        )

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "on_epoch_end", poison)
        with pytest.raises(UserError, match=r"the loss became nan at epoch 2, step 1; lower opt"):
            train(parse_config(CONFIG), data.path, out, quiet=True)
    # The checkpoint is from before the damage: the run goes on to the same end.
    assert train(parse_config(CONFIG), data.path, out, quiet=True).history == run[1].history
    assert equal(out, run[0])


def test_a_finished_run_is_not_trained_over(run, data):
    with pytest.raises(UserError, match=r"run holds a finished run; choose another --out"):
        train(parse_config(CONFIG), data.path, run[0])


@pytest.mark.parametrize(("optimizer", "models"), [("adam", 1), ("nesterov", 2)])
def test_the_second_training_starts_where_a_new_model_would(
    data, tmp_path, monkeypatch, optimizer, models
):
    raw = config(training__refit=True, training__averaging=0.9, optimizer__options={})
    raw["optimizer"] = {"learning_rate": 0.02, "name": optimizer}
    made, make = [], _Job._model
    monkeypatch.setattr(_Job, "_model", lambda *job: made.append(1) or make(*job))
    train(parse_config(raw), data.path, tmp_path / "kept", quiet=True)
    assert len(made) == models
    real = _Job._untrained_model

    def anew(job, *arguments):
        job.untrained.clear()
        return real(job, *arguments)

    monkeypatch.setattr(_Job, "_untrained_model", anew)
    train(parse_config(raw), data.path, tmp_path / "anew", quiet=True)
    kept, new = weights(tmp_path / "kept"), weights(tmp_path / "anew")
    assert kept.keys() == new.keys()
    for name in kept:
        np.testing.assert_array_equal(kept[name], new[name], err_msg=name)


@pytest.fixture
def unfinished(run, data, tmp_path) -> Path:
    out = tmp_path / "unfinished"
    start_run(parse_config(CONFIG), data.path, out)
    return out


def test_an_unfinished_run_of_another_configuration_names_the_key(unfinished, data):
    other = parse_config(config(training__seed=3))
    with pytest.raises(UserError, match=r"training.seed was 0, now 3"):
        train(other, data.path, unfinished)


def test_an_unfinished_run_on_other_data_is_refused(unfinished, tmp_path):
    other = write_data(tmp_path / "other", click_log(30))
    with pytest.raises(UserError, match="unfinished run on other data"):
        train(parse_config(CONFIG), other.path, unfinished)


def test_a_directory_that_is_no_run_is_left_alone(data, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="exists and is not a run"):
        train(parse_config(CONFIG), data.path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# --------------------------------------------------------------------------------- other settings


def test_reduced_precision_trains_an_lstm(data, folder):
    tower = {"name": "lstm", "cells": 4}
    raw = config(tower=tower, training__precision="mixed_bfloat16", training__epochs=1)
    result = train(parse_config(raw), data.path, folder / "bfloat16", quiet=True)
    assert np.isfinite(result.history[0]["loss"])
    vectors = SemanticRanker.load(folder / "bfloat16").encode_queries(["red fox", ""])
    assert np.linalg.norm(vectors, axis=1) == approx([1, 0], abs=1e-2)


def test_data_without_a_validation_part_keeps_the_epoch_of_the_lowest_loss(tmp_path):
    data = write_data(tmp_path / "data", click_log(24), validation=())
    raw = config(training__monitor="ndcg@10", ranking={"prior": "auto"})
    result = train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    losses = [epoch["loss"] for epoch in result.history]
    assert result.best_epoch == 1 + int(np.argmin(losses))
    assert result.ndcg == {}
    assert result.prior_weight == 0
    assert "no validation part" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")
    assert len(SemanticRanker.load(tmp_path / "run").score("red fox", ["red fox", "owl"])) == 2


@pytest.mark.slow
def test_compiled_by_xla_the_losses_are_the_same(data, folder):
    found = [
        train(parse_config(raw), data.path, folder / f"xla-{raw['training']['xla']}", quiet=True)
        for raw in (config(training__xla=choice, tower__dropout=0.0) for choice in (False, True))
    ]
    plain, compiled = (result.history for result in found)
    for one, other in zip(plain, compiled, strict=True):
        assert other["loss"] == approx(one["loss"], rel=1e-4)
        assert other["val_loss"] == approx(one["val_loss"], rel=1e-4)


# ------------------------------------------------------------------------------ refused beforehand


def test_more_negatives_than_were_recorded_are_refused(data, tmp_path):
    raw = config(negatives={"recorded": 5})
    with pytest.raises(UserError, match=r"negatives.recorded: 5 .* holds 4 .*--negatives 5"):
        train(parse_config(raw), data.path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_click_without_any_rival_is_refused(data, tmp_path):
    raw = config(negatives={"recorded": 0, "in_batch": False})
    with pytest.raises(UserError, match="the click needs rivals"):
        train(parse_config(raw), data.path, tmp_path / "run")


def test_damaged_records_are_found_before_anything_is_written(tmp_path):
    data = write_data(tmp_path / "data", click_log(20))
    shard = data.path / "validation-00001-of-00002.tfrecord.gz"
    shard.write_bytes(shard.read_bytes()[:40])
    with pytest.raises(UserError, match="validation"):
        train(parse_config(CONFIG), data.path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_record_that_is_no_example_is_named(tmp_path):
    data = write_data(tmp_path / "data", click_log(20), shards=1)
    (shard,) = data.path.glob("train-*")
    records = [one.serialize(data.vocabulary) for one in data.examples["train"]]
    assert len(read_examples(shard)) == len(records)
    write_records(shard, [*records[:4], b"\x00\xff", *records[5:]])
    with pytest.raises(UserError, match=r"train-00000-of-00001.*: record 5"):
        train(parse_config(CONFIG), data.path, tmp_path / "run")


def test_no_training_records_are_a_message(tmp_path):
    log = click_log(10)
    data = write_data(tmp_path / "data", log, validation={click.query for click in log})
    with pytest.raises(UserError, match="holds no training records"):
        train(parse_config(CONFIG), data.path, tmp_path / "run")


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
        Workers.from_environment()
