"""What is chosen and written."""

from __future__ import annotations

import csv
import json
import shlex
from dataclasses import replace

from dssm_tf.config import load_config
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.report import Row, Tuning
from tests.tuning.requests import EPOCHS, GRID, request


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
