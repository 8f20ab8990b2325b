"""The checkpoint has the full state of a training."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.training import checkpoint as checkpoint_module
from dssm_tf.training.checkpoint import Checkpoint
from dssm_tf.training.early_stopping import BestWeights
from dssm_tf.training.model_state import training_state


def compiled_model() -> keras.Model:
    """A model whose state includes a seed of dropout and Adam's moments."""
    model = keras.Sequential(
        [keras.layers.Input((2,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(3)]
    )
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def train(model: keras.Model, steps: int) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for _ in range(steps):
        model.train_on_batch(x, np.ones((4, 3), np.float32))


def callbacks(model: keras.Model, path, write=True) -> tuple[BestWeights, Checkpoint]:
    best_weights = BestWeights(monitor=None)
    checkpoint = Checkpoint(path, best_weights, write=write)
    best_weights.set_model(model)
    checkpoint.set_model(model)
    return best_weights, checkpoint


def end_epoch(callbacks, logs) -> None:
    for callback in callbacks:
        callback.on_epoch_end(0, logs)


def test_a_restored_model_continues_as_the_saved_one(tmp_path):
    path = tmp_path / "state" / "fit.npz"
    model, other = compiled_model(), compiled_model()
    train(model, 3)
    saved_best, saved_checkpoint = callbacks(model, path)
    end_epoch((saved_best, saved_checkpoint), {"loss": 0.1 + 0.2})
    best = [np.copy(weight) for weight in saved_best.weights]
    train(model, 2)
    saved_checkpoint.step = 2
    saved_checkpoint._save()
    best_weights, checkpoint = callbacks(other, path)
    assert checkpoint.restore(other)
    assert all(np.array_equal(*pair) for pair in zip(best_weights.weights, best, strict=True))
    assert (best_weights.history, best_weights.best_epoch) == ([{"loss": 0.1 + 0.2}], 1)
    assert (checkpoint.epoch, checkpoint.step) == (1, 2)
    assert int(other.optimizer.iterations) == 5
    # Dropout's next mask, Adam's moments and the sums of metrics are part of the state.
    assert other.get_metrics_result() == model.get_metrics_result()
    train(model, 2)
    train(other, 2)
    for weights in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(*weights)


def test_weights_of_the_best_epoch_are_saved_once_if_they_are_the_last_ones(tmp_path):
    model, other = compiled_model(), compiled_model()
    saved_best, saved_checkpoint = callbacks(model, tmp_path / "fit.npz")
    for epoch in (1, 2):
        train(model, 1)
        end_epoch((saved_best, saved_checkpoint), {"loss": 1.0 / epoch})
    with np.load(saved_checkpoint.path) as saved:
        # The history, the model's variables, the optimizer's, and the metric's two sums.
        expected = 1 + len(model.variables) + len(model.optimizer.variables) + 2
        assert len(saved.files) == expected
    best_weights, checkpoint = callbacks(other, tmp_path / "fit.npz")
    assert checkpoint.restore(other)
    assert best_weights.best_epoch == 2
    for weights in zip(best_weights.weights, saved_best.weights, strict=True):
        np.testing.assert_array_equal(*weights)


def test_before_the_end_of_the_first_epoch_there_are_no_best_weights(tmp_path):
    model = compiled_model()
    checkpoint = callbacks(model, tmp_path / "fit.npz")[1]
    checkpoint.step = 1
    checkpoint._save()
    best_weights, checkpoint = callbacks(model, tmp_path / "fit.npz")
    assert checkpoint.restore(model)
    assert (best_weights.weights, best_weights.best_epoch, checkpoint.step) == ([], 0, 1)


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as a list of one number; any file is large."""
    time = [100.0]
    monkeypatch.setattr(checkpoint_module, "monotonic", lambda: time[0])
    monkeypatch.setattr(checkpoint_module, "_SMALL", 0)
    return time


def test_a_large_checkpoint_is_saved_at_a_limited_rate(tmp_path, clock):
    model = compiled_model()
    numbers = sum(np.size(variable) for variable in training_state(model))
    best_weights, checkpoint = callbacks(model, tmp_path / "fit.npz")
    checkpoint.bytes_per_second = 4 * numbers / 60  # a file per minute
    saved = []
    for seconds in (30, 29, 1, 59, 2):
        clock[0] += seconds
        checkpoint.path.unlink(missing_ok=True)
        end_epoch((best_weights, checkpoint), {"loss": 1.0})
        saved.append(checkpoint.path.exists())
    # 30, 59, 60 seconds after the start; 59, 61 after the first save.
    assert saved == [False, False, True, False, True]
    clock[0] += 1
    checkpoint.path.unlink()
    checkpoint.save_skipped()
    assert not checkpoint.path.exists()  # the last epoch was saved
    end_epoch((best_weights, checkpoint), {"loss": 1.0})
    assert not checkpoint.path.exists()
    checkpoint.save_skipped()
    assert checkpoint.path.exists()


def test_a_checkpoint_of_any_size_is_saved_after_a_quarter_of_an_hour(tmp_path, clock):
    best_weights, checkpoint = callbacks(compiled_model(), tmp_path / "fit.npz")
    checkpoint.bytes_per_second = 1e-9
    clock[0] += 899
    end_epoch((best_weights, checkpoint), {"loss": 1.0})
    assert not checkpoint.path.exists()
    clock[0] += 1
    end_epoch((best_weights, checkpoint), {"loss": 1.0})
    assert checkpoint.path.exists()


def test_a_process_that_does_not_write_leaves_no_file(tmp_path):
    model = compiled_model()
    end_epoch(callbacks(model, tmp_path / "fit.npz", write=False), {"loss": 1.0})
    assert not (tmp_path / "fit.npz").exists()
    assert not callbacks(model, tmp_path / "fit.npz")[1].restore(model)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / "fit.npz").write_bytes(b"no zip")
    model = compiled_model()
    with pytest.raises(UserError, match=r"is not an archive of arrays.*Remove the run's directory"):
        callbacks(model, tmp_path / "fit.npz")[1].restore(model)


def test_an_update_that_breaks_a_weight_is_refused_and_the_saved_state_stays(tmp_path):
    model = compiled_model()
    best_weights, checkpoint = callbacks(model, tmp_path / "fit.npz")
    train(model, 1)
    end_epoch((best_weights, checkpoint), {"loss": 1.0})
    before = checkpoint.path.read_bytes()
    model.trainable_weights[-1].assign([np.nan, 0.0, 0.0])
    # The loss is that of the weights before the update, and finite.
    with pytest.raises(UserError, match=r"^epoch 2: a weight is not .*clip_norm\. Epoch 1 is kept"):
        end_epoch((best_weights, checkpoint), {"loss": 1.0})
    assert checkpoint.path.read_bytes() == before
