"""One file with all that a run needs to go on."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.training.checkpoint import Checkpoint

PROGRESS = {"history": [{"loss": 0.1 + 0.2}], "best_epoch": 1, "step": 0}


def model(units: int = 3) -> keras.Model:
    """Compiled and built, with dropout's seed and Adam's moments as state."""
    made = keras.Sequential(
        [keras.layers.Input((2,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(units)]
    )
    made.compile("adam", "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def train(made: keras.Model, steps: int) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for _ in range(steps):
        made.train_on_batch(x, np.ones((4, made.output_shape[1]), np.float32))


def best(made: keras.Model) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in made.weights]


def test_nothing_saved_is_nothing_restored(tmp_path):
    assert Checkpoint(tmp_path / "state" / "checkpoint.npz").restore(model()) is None


def test_a_restored_model_goes_on_as_the_one_that_was_saved(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state" / "checkpoint.npz")
    one, other = model(), model()
    train(one, 3)
    kept = best(one)
    train(one, 2)
    checkpoint.save(one, kept, PROGRESS)
    found, progress = checkpoint.restore(other)
    assert all(np.array_equal(a, b) for a, b in zip(found, kept, strict=True))
    assert progress == PROGRESS
    assert int(other.optimizer.iterations) == 5
    # Dropout's next mask and Adam's moments are part of the state.
    train(one, 2)
    train(other, 2)
    assert all(np.array_equal(a, b) for a, b in zip(best(one), best(other), strict=True))


def test_a_save_that_fails_leaves_the_one_before(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz")
    one = model()
    checkpoint.save(one, best(one), PROGRESS)
    before = checkpoint.path.read_bytes()

    def full_disk(file, *arrays):
        file.write(b"half of it")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    train(one, 1)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(one, best(one), PROGRESS)
    assert checkpoint.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_within_the_first_epoch_there_are_sums_of_metrics_and_no_best_weights_yet(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz")
    one, other, progress = model(), model(), {"history": [], "best_epoch": 0, "step": 2}
    train(one, 2)
    Checkpoint(checkpoint.path, chief=False).save(one, [], progress)
    assert not checkpoint.path.exists()  # that is another process's
    checkpoint.save(one, [], progress)
    assert checkpoint.restore(other) == ([], progress)
    assert other.get_metrics_result() == one.get_metrics_result()


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:300], lambda raw: b"no zip"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz")
    one = model()
    checkpoint.save(one, best(one), PROGRESS)
    checkpoint.path.write_bytes(damage(checkpoint.path.read_bytes()))
    with pytest.raises(UserError, match="is no archive of arrays"):
        checkpoint.restore(one)
