"""A finished tuning: what is chosen and written, and what is kept across kills and other grids."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.common.versions import versions
from dssm_tf.config import load_config
from dssm_tf.data.format import Spec
from dssm_tf.training.keeper import Keeper
from dssm_tf.tuning import trials
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.report import Row, Tuning
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


def test_the_chosen_configuration_is_that_of_the_best_trial_with_the_users_refit(tuned):
    # What training itself wrote down, trial by trial.
    found = {}
    for row in tuned.rows:
        ranking = json.loads((row.runs[0].directory / "ranking.json").read_text("utf-8"))
        found[row.runs[0].directory] = ranking["validation"]["ndcg@10"]
        assert ranking["refitted"] is False
    assert len(found) == 4
    best = max(found, key=found.__getitem__)
    expected = load_config(best / "config.yaml").model_dump()
    expected["training"]["refit"] = True
    assert load_config(tuned.out / "best.yaml").model_dump() == expected


def test_the_chosen_configuration_says_how_it_was_chosen_and_how_to_train_it(tuned, folder):
    header = [
        line.removeprefix("#").strip()
        for line in (tuned.out / "best.yaml").read_text("utf-8").splitlines()
        if line.startswith("#")
    ]
    assert header[0] == "Chosen by validation ndcg@10 from 4 trials:"
    settings = tuned.best.trial.settings
    assert header[1] == (
        f"loss.gamma={settings['loss.gamma']:g} "
        f"optimizer.learning_rate={settings['optimizer.learning_rate']:g}"
    )
    command = f"dssm train --config {folder}/tuned/best.yaml --data {folder}/data --out RUN"
    assert header[-1] == f"Command:    {command}"
    tuned_by = shlex.split(header[-2].removeprefix("Tuned by:"))
    assert tuned_by[:2] == ["dssm", "tune"]
    assert tuned_by.count("--grid") == 2


def test_the_trials_are_listed_with_their_measures_and_runs(tuned, folder):
    summary = json.loads((tuned.out / "trials.json").read_text("utf-8"))
    assert summary["metric"] == "ndcg@10"
    assert [trial["trial"] for trial in summary["trials"]] == [1, 2, 3, 4]
    assert [trial["settings"]["loss.gamma"] for trial in summary["trials"]] == [5, 5, 10, 10]
    (measured,) = zip(*(trial["runs"] for trial in summary["trials"]), strict=True)
    for run in measured:
        assert (run["status"], run["data"], run["seed"]) == ("finished", str(folder / "data"), 0)
        history = json.loads((tuned.out / run["run"] / "history.json").read_text("utf-8"))
        assert run["epochs"] == len(history) == EPOCHS
        assert run["validation"]["loss"] == history[run["best_epoch"] - 1]["val_loss"]
    values = [run["validation"]["ndcg@10"] for run in measured]
    assert [trial["value"] for trial in summary["trials"]] == values
    assert values[summary["best"] - 1] == max(values)
    with (tuned.out / "trials.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [float(row["loss.gamma"]) for row in rows] == [5, 5, 10, 10]
    assert [float(row["ndcg@10"]) for row in rows] == values


def test_by_loss_the_smallest_is_chosen_and_ties_go_to_the_first(tuned, folder):
    plan = make_plan(request(folder, *GRID, metric="loss"))
    rows = [
        Row(row.trial, row.runs, [replace(row.outcome, validation={"loss": loss})])
        for row, loss in zip(tuned.rows, [3.0, 1.0, 1.0, 2.0], strict=True)
    ]
    by_loss = Tuning(plan, tuned.data, tuned.out, tuned.fingerprints, rows)
    assert [by_loss.number(row) for row in by_loss.ranked] == [2, 3, 4, 1]


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
    replace(Spec.load(data), seed=99).save(data)
    assert data_fingerprint(data) != data_fingerprint(folder / "data")


@pytest.mark.parametrize("package", ["dssm-tf", "keras", "numpy", "apache-beam"])
def test_a_resumed_tuning_never_mixes_versions(tuned, folder, monkeypatch, package):
    run = tuned.rows[1].runs[0]
    before = run.identity
    monkeypatch.setattr(trials, "versions", lambda: {**versions(), package: "0.0"})
    assert run.identity != before
    monkeypatch.undo()
    assert run.identity == before


def test_a_damaged_trial_says_what_to_remove(tuned, folder, tmp_path):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    ranking = out / "trials" / tuned.rows[0].runs[0].identity / "ranking.json"
    ranking.write_text("{", "utf-8")
    with pytest.raises(UserError, match=f"{tuned.rows[0].runs[0].identity}.*damaged.*remove"):
        tune(make_plan(request(folder, *GRID)), folder / "data", out)
