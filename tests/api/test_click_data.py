"""Keras's `fit` on a preprocessed directory gives the same training as `dssm train`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.config import load_config, parse_config
from dssm_tf.losses import ClickSoftmax, Hinge
from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker
from dssm_tf.towers.dssm import DSSM
from dssm_tf.training.train import train
from tests.clicks import all_candidates, click_log, write_data
from tests.rounding import rounding_bound
from tests.training.configuration import RECORDED, config

EPOCHS = 2
CONFIG = config(
    whole_words=True,
    training__title_queries=1.5,
    training__typos=0.3,
    training__click_weight="log",
)


def fitted(clicks, optimizer=None, loss=None):
    """A model trained by Keras's `fit`, and its losses."""
    model = clicks.build_model()
    model.compile(optimizer=optimizer or clicks.optimizer(EPOCHS), loss=loss or clicks.loss())
    history = model.fit(
        clicks.training(EPOCHS),
        epochs=EPOCHS,
        steps_per_epoch=clicks.steps,
        validation_data=clicks.validation(),
        validation_steps=clicks.validation_steps,
        shuffle=False,
        verbose=0,
    )
    return model, history.history


def losses(run) -> dict[str, list[float]]:
    """Loss and validation loss of each epoch in a run's `history.json`."""
    history = json.loads((run / "history.json").read_text("utf-8"))
    return {name: [epoch[name] for epoch in history] for name in ("loss", "val_loss")}


@pytest.fixture(scope="module")
def trained(folder, data):
    """A model trained with a custom optimizer and loss, its losses, and its run."""
    clicks = dssm_tf.ClickData(data.path, CONFIG)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.5, use_ema=True, ema_momentum=0.75)
    model, history = fitted(clicks, optimizer, ClickSoftmax(gamma=5.0))
    clicks.save(model, folder / "fitted")
    return model, history, folder / "fitted"


@pytest.mark.long
@pytest.mark.numeric
def test_fit_has_the_losses_of_dssm_train(data, tmp_path):
    raw = CONFIG | {"optimizer": {"name": "nesterov", "learning_rate": 0.02, "clip_norm": 1.0}}
    train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    _, history = fitted(dssm_tf.ClickData(data.path, raw))
    assert history == losses(tmp_path / "run")


def test_a_saved_run_has_the_losses_the_epochs_and_the_weights_of_the_fitted_model(trained):
    model, history, run = trained
    assert losses(run) == history
    saved = load_config(run / "config.yaml").training
    assert (saved.epochs, saved.refit) == (EPOCHS, False)
    loaded = dssm_tf.load(run)
    texts = ["red fox", "owl", "the white whale story"]
    encode = Encoder(model, SemanticRanker.load(run).vocabulary)
    # Both add the same float32 numbers, in different orders.
    assert loaded.encode_titles(texts) == approx(encode("title", texts), abs=rounding_bound(64, 1))
    assert np.ptp(loaded.score("red fox", texts)) > 0


def test_the_model_card_has_the_optimizer_and_the_loss_as_keras_writes_them(trained):
    card = (trained[2] / "MODEL_CARD.md").read_text("utf-8")
    (compiled,) = map(json.loads, re.findall("```json\n(.*?)```", card, re.S))
    assert compiled["optimizer"]["config"]["momentum"] == 0.5
    assert compiled["loss"]["config"]["gamma"] == 5
    assert "| validation part" not in card
    assert "The weights are those that `fit` ended with." in " ".join(card.split())


@keras.saving.register_keras_serializable(package="click_data_test")
class Halved(DSSM):
    """A tower of half the vector of a DSSM."""

    def encode(self, words, present):
        return super().encode(words, present) / 2


@pytest.mark.long
def test_a_tower_and_a_loss_of_ones_own_are_fitted_and_saved(data, tmp_path):
    clicks = dssm_tf.ClickData(
        data.path, CONFIG, tower=lambda size: Halved(size, (4,)), loss=Hinge(margin=0.5)
    )
    model, history = fitted(clicks)
    assert type(model.query_tower) is Halved
    assert model.query_tower.vocabulary_size == clicks.vocabulary_size
    assert clicks.loss().margin == 0.5
    clicks.save(model, tmp_path / "run")
    assert dssm_tf.load(tmp_path / "run").encode_titles(["red fox"]).shape == (1, 4)
    assert losses(tmp_path / "run") == history


def test_a_model_validated_every_second_epoch_is_saved(data, tmp_path):
    clicks = dssm_tf.ClickData(data.path, CONFIG)
    model = clicks.build_model()
    model.compile(clicks.optimizer(EPOCHS), clicks.loss())
    history = model.fit(
        clicks.training(EPOCHS), epochs=EPOCHS, steps_per_epoch=clicks.steps, verbose=0,
        shuffle=False, validation_data=clicks.validation(), validation_freq=2,
        validation_steps=clicks.validation_steps,
    ).history  # fmt: skip
    clicks.save(model, tmp_path / "run")
    saved = json.loads((tmp_path / "run" / "history.json").read_text("utf-8"))
    assert [epoch["loss"] for epoch in saved] == history["loss"]


TWO_DEVICES = """
import json, sys
from dssm_tf.common.quiet import load_tensorflow
load_tensorflow()
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import dssm_tf
from tests.api.test_click_data import fitted
names = [device.name for device in tf.config.list_logical_devices("CPU")]
with tf.distribute.MirroredStrategy(names).scope():
    clicks = dssm_tf.ClickData(sys.argv[1], json.loads(sys.argv[2]))
    model, history = fitted(clicks)
clicks.save(model, sys.argv[3])
print(json.dumps(history))
"""


@pytest.mark.long
@pytest.mark.numeric
def test_two_devices_under_a_strategy_have_the_losses_of_one_device(data, tmp_path, checkout):
    # Recorded negatives do not depend on the number of devices; there is no dropout, and plain SGD
    # does not amplify rounding.
    optimizer = {"name": "sgd", "learning_rate": 0.1}
    raw = config(negatives=RECORDED, tower__dropout=0.0, optimizer=optimizer)
    _, single_losses = fitted(dssm_tf.ClickData(data.path, raw))
    arguments = [str(data.path), json.dumps(raw), str(tmp_path / "run")]
    command = [sys.executable, "-c", TWO_DEVICES, *arguments]
    process = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    two_device_losses = json.loads(process.stdout.splitlines()[-1])
    # At most 12 steps add to weights of about 1 a sum over 8 pairs of 3 candidates; gamma is 10.
    for name, values in single_losses.items():
        assert two_device_losses[name] == approx(values, abs=10 * rounding_bound(12 * 8 * 3, 1)), (
            name
        )
    assert dssm_tf.load(tmp_path / "run").score("red fox", ["red fox", "owl"]).shape == (2,)


def test_batches_have_the_shapes_of_the_configuration(data):
    clicks = dssm_tf.ClickData(data.path, CONFIG, [])
    (inputs, labels, weights), *others = clicks.training(1)
    assert 1 + len(others) == clicks.steps
    assert all_candidates(inputs).shape == labels["mask"].shape
    assert labels["targets"].shape == (1, labels["mask"].shape[1])
    assert weights.shape == (8,)
    assert len(list(clicks.training(3, initial_epoch=1))) == 2 * clicks.steps
    assert len(list(clicks.validation())) == clicks.validation_steps


def test_without_a_validation_split_there_are_no_validation_batches(tmp_path):
    data = write_data(tmp_path / "data", click_log(), validation=())
    clicks = dssm_tf.ClickData(data.path, CONFIG)
    assert (clicks.validation(), clicks.validation_steps) == (None, None)
    model, _ = fitted(clicks)
    clicks.save(model, tmp_path / "run")
    assert "no validation split" in (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")


def test_keras_compiles_steps_only_if_the_configuration_enables_xla(data):
    for xla in (False, True):
        model = dssm_tf.ClickData(data.path, config(training__xla=xla)).build_model()
        assert model.supports_jit is xla


def test_untrainable_configurations_and_foreign_models_are_refused(
    trained, data, tmp_path, monkeypatch
):
    model, _, run = trained
    clicks = dssm_tf.ClickData(data.path, CONFIG)
    other = dssm_tf.ClickData(data.path, CONFIG | {"tower": {"name": "dssm", "widths": [7, 6]}})
    for source, candidate, out, message in (
        (clicks, model, run, "exists"),
        (other, model, tmp_path / "run", "Save a model that `build_model` created"),
        (clicks, clicks.build_model(), tmp_path / "run", "not compiled"),
    ):
        with pytest.raises(dssm_tf.UserError, match=message):
            source.save(candidate, out)
    assert not (tmp_path / "run").exists()
    for message, *arguments in (
        ("overrides", data.path, CONFIG, ["training.epochs=2"]),
        ("received 9, but", data.path, "dssm", ["negatives.recorded=9"]),
    ):
        with pytest.raises(dssm_tf.UserError, match=message):
            dssm_tf.ClickData(*arguments)
    cluster = '{"worker": ["127.0.0.1:1", "127.0.0.1:2"]}'
    task = '{"type": "worker", "index": 0}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {cluster}, "task": {task}}}')
    with pytest.raises(dssm_tf.UserError, match="2 workers"):
        dssm_tf.ClickData(data.path)
