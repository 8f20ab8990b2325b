"""When `dssm train` stops, and how it treats existing directories."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import is_finished
from dssm_tf.training.checks import check_learned
from dssm_tf.training.run_directory import Result, start_run
from dssm_tf.training.validation import ValidationTask
from tests.clicks import click_log, write_data
from tests.training.configuration import CONFIG, trained

pytestmark = pytest.mark.long  # trainings


def test_training_stops_after_patience_epochs_and_keeps_the_best(data, tmp_path):
    result = trained(
        data, tmp_path / "run",
        training__epochs=9, training__patience=2, training__monitor="ndcg@10",
        optimizer={"name": "sgd", "learning_rate": 1e-5},  # steps too small to change the ranking
    )  # fmt: skip
    # The first epoch is the best; two more are not better.
    assert (result.epochs, result.best_epoch) == (3, 1)


def test_training_a_finished_run_again_changes_nothing(run, data):
    out, result = run
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert trained(data, out) == replace(result, seconds=0.0)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_state_left_by_a_kill_after_the_end_is_removed(run, data, tmp_path):
    out = Path(shutil.copytree(run[0], tmp_path / "run"))
    (out / "state").mkdir()
    (out / "state" / "fit.npz").write_bytes(b"left by a kill")
    assert trained(data, out).history == run[1].history
    assert not (out / "state").exists()


def test_a_model_that_cannot_be_built_leaves_no_directory(data, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("dssm_tf.training.build.build_model", fail)
    with pytest.raises(MemoryError):
        trained(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_training_that_is_no_better_than_the_untrained_model_has_a_warning():
    def result(untrained, *after):
        history = [{"loss": 1.0, "ndcg@10": value} for value in after]
        return Result(len(history), 1, history, 0.0, untrained={"ndcg@10": untrained})

    assert result(0.5, 0.4, 0.5).convergence_warning == (
        "no epoch ranked the validation queries better (NDCG@10 0.500) than the untrained model "
        "did (0.500)"
    )
    assert result(0.0, 0.0).convergence_warning
    assert not result(0.5, 0.4, 0.51).convergence_warning
    assert not result(1.0, 1.0).convergence_warning  # training could not improve it


def test_a_training_whose_every_epoch_is_significantly_worse_than_the_untrained_model_fails():
    def epoch(value, high, loss=1.0):
        return {"ndcg@10": value, "high ndcg@10": high, "val_loss": loss}

    def check(history, untrained, rate=0.1):
        check_learned(history, untrained, lambda: 2.0, rate)

    untrained = {"ndcg@10": 0.5}
    check([epoch(0.4, 0.45), epoch(0.49, 0.51), epoch(0.3, 0.4)], untrained)
    check([{"loss": 9.0}], {})  # without a validation
    message = r"worse \(NDCG@10 at most 0.440\) than the untrained model \(0.500\).*was 1e\+06"
    with pytest.raises(UserError, match=message):
        check([epoch(0.4, 0.45), epoch(0.44, 0.49)], untrained, 1e6)


def test_a_training_whose_every_epoch_has_a_lower_ndcg_and_a_higher_loss_fails():
    def check(*losses, ndcg=0.4):
        values = {"ndcg@10": ndcg, "high ndcg@10": 0.6}
        history = [values | {"val_loss": loss} for loss in losses]
        check_learned(history, {"ndcg@10": 0.5}, lambda: 2.0, 1e6)

    check(3.0, 1.9)
    check(3.0, 2.0)  # without negatives in the validation, all losses are 0
    check(3.0, 4.0, ndcg=0.5)
    with pytest.raises(UserError, match=r"loss of at least 3.0000 instead of 2.0000\. Choose"):
        check(3.0, 4.0)


def test_a_training_that_is_worse_than_the_untrained_model_is_not_marked_as_finished(
    data, tmp_path, monkeypatch
):
    untrained = dict.fromkeys(["ndcg@1", "ndcg@3", "ndcg@10"], 1.1)  # better than any epoch
    monkeypatch.setattr(ValidationTask, "ndcg", lambda *_: untrained)
    out = tmp_path / "run"
    for _ in range(2):  # the second call resumes the first
        with pytest.raises(UserError, match="each epoch ranks the validation queries worse"):
            trained(data, out)
        assert not is_finished(out)


def test_a_training_with_a_huge_learning_rate_is_not_marked_as_finished(data, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UserError, match="each epoch ranks the validation queries worse"):
        trained(data, out, optimizer__learning_rate=1e6, training__epochs=2)
    assert not is_finished(out)


def test_a_directory_that_is_not_a_run_is_not_changed(data, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="exists and is not a run"):
        trained(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("finished", [True, False], ids=["a finished", "an unfinished"])
def test_a_run_of_another_configuration_or_data_is_not_replaced(run, data, tmp_path, finished):
    out = run[0] if finished else tmp_path / "unfinished"
    if not finished:
        start_run(parse_config(CONFIG), Preprocessed(data.path), out)
    message = f"{out} has {'a finished' if finished else 'an unfinished'} run of another "
    with pytest.raises(UserError, match=rf"{message}.* \(training.seed was 0, now 3\)"):
        trained(data, out, training__seed=3)
    other = write_data(tmp_path / "other", click_log(30))
    with pytest.raises(UserError, match=rf"{message}.* \(data\.ngrams was .*; choose another"):
        trained(other, out)
