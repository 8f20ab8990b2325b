"""One file with all that a run needs to go on."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.training.keeper import Keeper, restore, save
from tests.training.configuration import config

PROGRESS = {"history": [{"loss": 0.1 + 0.2}], "best_epoch": 1, "step": 0}


def model() -> keras.Model:
    """Compiled and built, with dropout's seed and Adam's moments as state."""
    made = keras.Sequential(
        [keras.layers.Input((2,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(3)]
    )
    made.compile("adam", "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def train(made: keras.Model, steps: int) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for _ in range(steps):
        made.train_on_batch(x, np.ones((4, 3), np.float32))


def test_a_restored_model_goes_on_as_the_one_that_was_saved(tmp_path):
    path = tmp_path / "state" / "fit.npz"
    one, other = model(), model()
    train(one, 3)
    kept = one.get_weights()
    train(one, 2)
    save(None, one, kept, PROGRESS)  # another process writes it
    assert restore(path, other) is None
    save(path, one, kept, PROGRESS)
    found, progress = restore(path, other)
    assert all(np.array_equal(a, b) for a, b in zip(found, kept, strict=True))
    assert progress == PROGRESS
    assert int(other.optimizer.iterations) == 5
    # Dropout's next mask, Adam's moments and the sums of metrics are part of the state.
    assert other.get_metrics_result() == one.get_metrics_result()
    train(one, 2)
    train(other, 2)
    assert all(
        np.array_equal(a, b) for a, b in zip(one.get_weights(), other.get_weights(), strict=True)
    )


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / "fit.npz").write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"is no archive of arrays.*Remove the run's directory"):
        restore(tmp_path / "fit.npz", model())


def test_an_update_that_breaks_a_weight_is_refused_and_what_was_saved_stays(tmp_path):
    one, training = model(), parse_config(config()).training
    keeper = Keeper(training, None, model(), None, tmp_path / "fit.npz", True)
    train(one, 1)
    keeper.after_epoch(one, {"loss": 1.0})
    before = keeper.path.read_bytes()
    bias = one.trainable_weights[-1]
    bias.assign([np.nan, 0.0, 0.0])
    # The loss is of the weights before the update, and finite.
    with pytest.raises(UserError, match=r"in epoch 2; lower .*clip_norm\. Epoch 1 is kept\.$"):
        keeper.after_epoch(one, {"loss": 1.0})
    assert keeper.path.read_bytes() == before
