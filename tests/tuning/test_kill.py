"""What is kept across kills and other grids."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config
from dssm_tf.training.keeper import Keeper
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.trials import data_fingerprint
from dssm_tf.tuning.tune import tune
from tests.tuning.requests import (
    EPOCHS,
    GRID,
    Calls,
    Killed,
    measures,
    refuse_to_train,
    request,
    trials_of,
)


def test_a_kill_in_the_second_trial_costs_at_most_its_running_epoch(tuned, folder, monkeypatch):
    epochs: list[Path] = []
    saved = Keeper.on_epoch_end

    def on_epoch_end(self, epoch, logs=None):
        saved(self, epoch, logs)
        epochs.append(epoch)
        if len(epochs) == EPOCHS + 1:  # the first trial is done, and one epoch of the second
            raise Killed

    monkeypatch.setattr(Keeper, "on_epoch_end", on_epoch_end)
    rates = "optimizer.learning_rate=0.01"
    plan, out = make_plan(request(folder, GRID[0], rates)), folder / "killed"
    with pytest.raises(Killed):
        tune(plan, folder / "data", out)
    assert [trial["status"] for trial in trials_of(out)] == ["finished", "waiting"]
    assert not (out / "best.yaml").exists()

    calls = Calls(monkeypatch)
    again = tune(plan, folder / "data", out)
    assert len(calls.directories) == 1
    # Of the second trial only the second epoch is left, numbered from 0.
    assert epochs == [0, 1, 0, 1]
    assert measures(again) == measures(tuned)[::2]
    assert load_config(out / "best.yaml").loss == again.best.trial.config.loss


@pytest.mark.parametrize("file", ["trials.json", "trials.tsv", "best.yaml"])
def test_a_kill_while_results_are_written_leaves_nothing_half_written(
    tuned, folder, monkeypatch, tmp_path, file
):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    before = {path.name: path.read_text("utf-8") for path in out.iterdir() if path.is_file()}
    replace_file = Path.replace

    def replace_or_die(self, target):
        if Path(target).name == file:
            raise Killed
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_die)
    plan = make_plan(request(folder, *GRID))
    with pytest.raises(Killed):
        tune(plan, folder / "data", out)
    assert (out / file).read_text("utf-8") == before[file]
    monkeypatch.setattr(Path, "replace", replace_file)
    refuse_to_train(monkeypatch)
    tune(plan, folder / "data", out)


def test_a_trial_that_finished_just_before_the_kill_is_known_to_be_finished(
    tuned, folder, monkeypatch, tmp_path
):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    (out / tuned.rows[2].runs[0].record.relative_to(tuned.out)).unlink()
    refuse_to_train(monkeypatch)
    again = tune(make_plan(request(folder, *GRID)), folder / "data", out)
    assert measures(again) == measures(tuned)
    assert again.rows[2].outcome.seconds is None


def test_another_grid_keeps_what_was_done_and_adds_what_is_new(
    tuned, folder, monkeypatch, tmp_path
):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    before = {path.name for path in (out / "trials").iterdir()}
    calls = Calls(monkeypatch)
    plan = make_plan(request(folder, "loss.gamma=10,20", "optimizer.learning_rate=0.05"))
    wider = tune(plan, folder / "data", out)
    assert [path.name for path in calls.directories] == [wider.rows[1].runs[0].identity]
    assert measures(wider)[0] == measures(tuned)[3]
    assert before < {path.name for path in (out / "trials").iterdir()}
    assert [trial["settings"]["loss.gamma"] for trial in trials_of(out)] == [10, 20]


def test_other_data_are_other_trials_and_a_copy_is_not(folder, tmp_path):
    data = Path(shutil.copytree(folder / "data", tmp_path / "data"))
    assert data_fingerprint(data) == data_fingerprint(folder / "data")
    shard = next(data.glob("validation-*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    assert data_fingerprint(data) != data_fingerprint(folder / "data")


def test_a_setting_added_by_a_later_version_leaves_trials_known_and_a_changed_default_does_not(
    tuned, folder, monkeypatch, tmp_path
):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    refuse_to_train(monkeypatch)
    plan = make_plan(request(folder, *GRID))
    config = out / "trials" / tuned.rows[1].runs[0].identity / "config.yaml"
    written = config.read_text("utf-8")
    # As a version wrote it that had no such setting yet.
    config.write_text(written.replace("  shuffle_buffer: 200000\n", ""), "utf-8")
    assert config.read_text("utf-8") != written
    assert measures(tune(plan, folder / "data", out)) == measures(tuned)
    config.write_text(
        written.replace("  shuffle_buffer: 200000\n", "  shuffle_buffer: 100\n"), "utf-8"
    )
    with pytest.raises(UserError, match="other defaults than this version has"):
        tune(plan, folder / "data", out)
