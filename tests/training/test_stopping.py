"""Where `dssm train` stops, and what it does with runs that are there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.keeper import Keeper
from dssm_tf.training.run_directory import Result, start_run
from dssm_tf.training.train import train
from tests.clicks import click_log, write_data
from tests.training.configuration import CONFIG, config, equal


@pytest.fixture(scope="module")
def standing_still(data, folder):
    """A run whose steps are too small to rank anything otherwise, with another seed than others."""
    raw = config(
        optimizer={"name": "sgd", "learning_rate": 1e-5},
        training__epochs=9, training__patience=2, training__monitor="ndcg@10", training__seed=1,
    )  # fmt: skip
    return folder / "still", train(parse_config(raw), data.path, folder / "still", quiet=True)


def test_training_stops_when_patience_runs_out_and_keeps_the_best(standing_still):
    # The first epoch is the best there is; two more bring nothing better.
    result = standing_still[1]
    assert (result.epochs, result.best_epoch) == (3, 1)


def test_a_loss_that_is_not_a_number_stops_and_the_last_good_epoch_is_kept(
    run, data, folder, monkeypatch
):
    out = folder / "nan"
    sound = Keeper.after_epoch

    def poison(keeper, model, logs):
        sound(keeper, model, logs)
        weight = model.trainable_weights[0]
        weight.assign_add(tf.fill(weight.shape, float("nan")))

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "after_epoch", poison)
        with pytest.raises(
            UserError,
            match=r"a weight is not a finite number in epoch 2; lower .* Epoch 1 is kept",
        ):
            train(parse_config(CONFIG), data.path, out, quiet=True)
    # The checkpoint is from before the damage: the run goes on to the same end.
    assert train(parse_config(CONFIG), data.path, out, quiet=True).history == run[1].history
    assert equal(out, run[0])


def test_a_finished_run_given_again_stays_as_it_is(run, data):
    out, result = run
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert train(parse_config(CONFIG), data.path, out) == replace(result, seconds=0.0)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_training_killed_between_its_end_and_its_clean_up_is_cleaned_up(run, data, tmp_path):
    out = Path(shutil.copytree(run[0], tmp_path / "run"))
    (out / "state").mkdir()
    (out / "state" / "fit.npz").write_bytes(b"what the kill left")
    assert train(parse_config(CONFIG), data.path, out).history == run[1].history
    assert not (out / "state").exists()


def test_a_model_that_cannot_be_made_leaves_no_directory(data, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("dssm_tf.training.fitting.build_model", fail)
    with pytest.raises(MemoryError):
        train(parse_config(CONFIG), data.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_training_no_better_than_the_untrained_model_is_in_doubt():
    def result(untrained, *after):
        history = [{"loss": 1.0, "ndcg@10": value} for value in after]
        return Result(len(history), 1, history, 0.0, untrained={"ndcg@10": untrained})

    assert result(0.5, 0.4, 0.5).doubt == (
        "no epoch ranked the validation queries better (NDCG@10 0.500) than the untrained model "
        "did (0.500)"
    )
    assert result(0.0, 0.0).doubt
    assert not result(0.5, 0.4, 0.51).doubt
    assert not result(1.0, 1.0).doubt  # there was nothing to learn


def test_a_directory_that_is_no_run_is_left_alone(data, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="exists and is not a run"):
        train(parse_config(CONFIG), data.path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("finished", [True, False], ids=["a finished", "an unfinished"])
def test_a_run_is_not_trained_over(run, data, tmp_path, finished):
    out = run[0] if finished else tmp_path / "unfinished"
    if not finished:
        start_run(parse_config(CONFIG), Preprocessed(data.path), out)
    holds = f"{out} holds {'a finished' if finished else 'an unfinished'} run of another "
    with pytest.raises(UserError, match=rf"{holds}.* \(training.seed was 0, now 3\)"):
        train(parse_config(config(training__seed=3)), data.path, out)
    other = write_data(tmp_path / "other", click_log(30))
    with pytest.raises(UserError, match=rf"{holds}.* \(data\.trigrams was .*; choose another"):
        train(parse_config(CONFIG), other.path, out)


def test_an_update_that_broke_the_weights_is_refused(data, tmp_path):
    """One step an epoch: its loss is of the weights before the update."""
    broken = {"name": "sgd", "learning_rate": 1e39}
    raw = config(optimizer=broken, training__batch_size=64, training__epochs=1)
    with pytest.raises(UserError, match="is not a finite number in epoch 1; lower optimizer"):
        train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
