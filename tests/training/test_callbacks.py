"""Keras callbacks: those of this package in a plain `fit`, and others in `train`."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.training.checkpoint import Checkpoint
from dssm_tf.training.early_stopping import BestWeights
from dssm_tf.training.train import train
from tests.clicks import click_log, write_data
from tests.training.configuration import config, trained

pytestmark = pytest.mark.long  # trainings

EPOCHS = 3
RANKED = config(training__monitor="ndcg@10", training__epochs=EPOCHS, training__averaging=0.5)


class Interrupted(Exception):
    """Ends a training in the middle of an epoch."""


class InterruptAfter(keras.callbacks.Callback):
    """Raises `Interrupted` after `batches` batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        self.batches -= 1
        if self.batches == 0:
            raise Interrupted


def fit(clicks, callbacks, initial_epoch=0, epochs=EPOCHS, model=None):
    """Keras's `fit`, from epoch `initial_epoch` on."""
    model = compiled(clicks) if model is None else model
    model.fit(
        clicks.training(epochs, initial_epoch), epochs=epochs, initial_epoch=initial_epoch,
        steps_per_epoch=clicks.steps, shuffle=False, verbose=0, callbacks=callbacks,
        validation_data=clicks.validation(), validation_steps=clicks.validation_steps,
    )  # fmt: skip
    return model


def compiled(clicks):
    model = clicks.build_model()
    model.compile(clicks.optimizer(EPOCHS), clicks.loss())
    return model


@pytest.fixture(scope="module")
def by_train(data, folder):
    return train(parse_config(RANKED), data.path, folder / "ranked", quiet=True)


@pytest.mark.numeric
def test_a_plain_fit_with_the_callbacks_equals_train(data, by_train, folder):
    clicks = dssm_tf.ClickData(data.path, RANKED)
    best_weights = BestWeights("ndcg@10", patience=EPOCHS)
    model = fit(clicks, [clicks.ranking_validation(), best_weights])
    assert best_weights.history == by_train.history
    assert best_weights.best_epoch == by_train.best_epoch
    expected = dssm_tf.load(folder / "ranked").ranker.model.get_weights()
    for weights in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(*weights)


@pytest.mark.numeric
def test_a_plain_fit_that_is_interrupted_continues_from_its_checkpoint(
    data, by_train, folder, tmp_path
):
    clicks = dssm_tf.ClickData(data.path, RANKED)

    def callbacks():
        best_weights = BestWeights("ndcg@10", patience=EPOCHS)
        checkpoint = Checkpoint(tmp_path / "state.npz", best_weights)
        return checkpoint, [clicks.ranking_validation(), best_weights, checkpoint]

    with pytest.raises(Interrupted):
        fit(clicks, [*callbacks()[1], InterruptAfter(clicks.steps + 2)])
    model = compiled(clicks)
    model.optimizer.build(model.trainable_variables)
    checkpoint, rest = callbacks()
    assert checkpoint.restore(model)
    assert checkpoint.epoch == 1
    fit(clicks, rest, checkpoint.epoch, model=model)
    uninterrupted = dssm_tf.load(folder / "ranked").ranker.model.get_weights()
    for weights in zip(model.get_weights(), uninterrupted, strict=True):
        np.testing.assert_array_equal(*weights)


def test_best_weights_without_the_monitored_metric_names_the_missing_callback(data):
    clicks = dssm_tf.ClickData(data.path, RANKED)
    best_weights = BestWeights("ndcg@10")
    best_weights.set_model(clicks.build_model())
    best_weights.on_train_begin()
    with pytest.raises(UserError, match=r"have no ndcg@10, only loss.*RankingValidation before"):
        best_weights.on_epoch_end(0, {"loss": 1.0})


def test_data_without_a_validation_split_cannot_be_ranked(tmp_path):
    data = write_data(tmp_path / "data", click_log(), validation=())
    with pytest.raises(UserError, match="contains no validation records"):
        dssm_tf.ClickData(data.path, RANKED).ranking_validation()


class LearningRates(keras.callbacks.Callback):
    """Records the learning rate after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.phases = []

    def on_train_begin(self, logs=None):
        self.phases.append([])

    def on_train_batch_end(self, batch, logs=None):
        assert isinstance(logs["loss"], float)
        self.phases[-1].append(float(self.model.optimizer.learning_rate))


def test_a_keras_callback_changes_the_learning_rate_of_train(data, tmp_path):
    rates = LearningRates()
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=100)
    trained(data, tmp_path / "plateau", callbacks=[plateau, rates], training__epochs=3)
    # The optimizer's rate is .02; no epoch is better by 100, so it is halved after the second.
    assert rates.phases[0][:12] == [pytest.approx(0.02)] * 12
    assert rates.phases[0][12:] == [pytest.approx(0.01)] * 6


def test_keras_callbacks_may_set_the_learning_rate_and_stop_train(data, tmp_path):
    rates = LearningRates()
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch))
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=100, patience=1)
    result = trained(data, tmp_path / "run", callbacks=[schedule, rates, stop], training__epochs=9)
    assert result.epochs == 2
    assert rates.phases == [[pytest.approx(0.01)] * 6 + [pytest.approx(0.005)] * 6]


def test_a_callback_may_stop_train_in_the_middle_of_an_epoch(data, tmp_path):
    calls = []

    def stop_after_three(batch, logs):
        calls.append((batch, logs["loss"]))
        stop.model.stop_training = len(calls) == 3

    stop = keras.callbacks.LambdaCallback(on_train_batch_end=stop_after_three)
    result = trained(data, tmp_path / "run", callbacks=[stop], training__epochs=9)
    assert [batch for batch, _ in calls] == [0, 1, 2]
    assert all(isinstance(loss, float) for _, loss in calls)
    assert result.epochs == 1


class StopTwice(keras.callbacks.Callback):
    """Stops the first phase after two epochs, and interrupts the second phase."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs_by_phase = []

    def on_train_begin(self, logs=None):
        self.epochs_by_phase.append(0)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs_by_phase[-1] += 1
        if len(self.epochs_by_phase) == 2:
            raise Interrupted
        if epoch == 1:
            self.model.stop_training = True


def test_a_phase_that_a_callback_stopped_is_not_continued_on_resume(data, tmp_path):
    settings = {"training__epochs": 9, "training__refit": True}
    with pytest.raises(Interrupted):
        trained(data, tmp_path / "run", callbacks=[StopTwice()], **settings)
    result = trained(data, tmp_path / "run", **settings)
    assert result.epochs == 2


class Calls(keras.callbacks.Callback):
    """Records the names of the methods that are called, and the keys of their logs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = []


def _recorder(name):
    def method(self, batch_or_logs=None, logs=None):
        logs = batch_or_logs if logs is None else logs
        self.calls.append((name, sorted(logs) if isinstance(logs, dict) else []))

    return method


for method_name in ("train_begin", "train_end", "epoch_begin", "epoch_end", "train_batch_begin",
                    "train_batch_end", "test_begin", "test_end", "test_batch_begin",
                    "test_batch_end"):  # fmt: skip
    setattr(Calls, f"on_{method_name}", _recorder(method_name))


@pytest.mark.numeric
def test_callbacks_are_called_in_the_order_of_fit(data, tmp_path):
    by_train = Calls()
    settings = config(training__epochs=1)
    train(parse_config(settings), data.path, tmp_path / "run", quiet=True, callbacks=[by_train])
    clicks, by_fit = dssm_tf.ClickData(data.path, settings), Calls()
    fit(clicks, [by_fit], epochs=1)
    assert [name for name, _ in by_train.calls] == [name for name, _ in by_fit.calls]
    for (name, keys), (_, keys_of_fit) in zip(by_train.calls, by_fit.calls, strict=True):
        if name not in ("epoch_end", "train_end"):  # these have the rankings' metrics too
            assert keys == keys_of_fit, name


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (keras.callbacks.EarlyStopping(), "callbacks is a EarlyStopping; expected a list"),
        (["early_stopping"], "callbacks contains a str; expected instances"),
        ([keras.callbacks.EarlyStopping], "callbacks contains a type; expected instances"),
        ([keras.callbacks.BackupAndRestore("x")], "BackupAndRestore would overwrite"),
    ],
)
def test_unusable_callbacks_are_refused_before_training(data, tmp_path, callbacks, message):
    with pytest.raises(UserError, match=message):
        trained(data, tmp_path / "run", callbacks=callbacks)
    assert not (tmp_path / "run").exists()


def test_a_callback_that_sets_the_rate_is_refused_beside_a_schedule(data, tmp_path):
    rate = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)
    with pytest.raises(UserError, match=r"and so does optimizer\.schedule \(cosine\)"):
        trained(
            data, tmp_path / "run", callbacks=[rate],
            optimizer={"name": "sgd", "schedule": {"name": "cosine"}},
        )  # fmt: skip


def test_a_schedule_has_the_length_of_each_phase_and_tensorboard_a_folder(data, tmp_path):
    rates = LearningRates()
    schedule = {"name": "cosine", "warmup": 0.25, "end": 0.1}
    settings = config(
        training__epochs=2,
        training__refit=True,
        optimizer={"name": "sgd", "learning_rate": 0.1, "schedule": schedule},
    )
    train(
        parse_config(settings), data.path, tmp_path / "run", quiet=True, callbacks=[rates],
        tensorboard=tmp_path / "board",
    )  # fmt: skip
    fitted, refitted = rates.phases
    for phase in (fitted, refitted):
        steps, warmup = len(phase), round(0.25 * len(phase))
        after = (np.arange(1, steps + 1) - warmup) / (steps - warmup)
        cosine = 0.1 * (0.1 + 0.9 * (1 + np.cos(np.pi * after)) / 2)
        rising = 0.1 * np.arange(1, steps + 1) / warmup
        expected = np.where(np.arange(1, steps + 1) < warmup, rising, cosine)
        assert phase == pytest.approx(expected.tolist(), rel=1e-4)
    for phase in ("fit", "refit"):
        (events,) = (tmp_path / "board" / phase / "train").glob("events.out.tfevents.*")
        assert events.stat().st_size > 100
