"""Trials and directories that fail."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.tune import tune
from tests.clicks import click_log, write_data
from tests.tuning.requests import Calls, measures, refuse_to_train, request, trials_of


def test_a_diverging_trial_is_reported_in_its_row_and_the_others_go_on(folder, monkeypatch):
    out, shown = folder / "diverging", StringIO()
    # Steps of 1e38 overflow float32.
    plan = make_plan(request(folder, "optimizer.learning_rate=1e38,0.05"))
    found = tune(plan, folder / "data", out, console=Console(file=shown, width=100))
    failed, finished = trials_of(out)
    assert (failed["status"], finished["status"]) == ("failed", "finished")
    assert "the loss became nan in epoch 1" in failed["reason"]
    assert found.best is found.rows[1]
    header = (out / "best.yaml").read_text("utf-8").splitlines()[0]
    assert header == "# Chosen by validation ndcg@10 from 1 trials (1 more failed):"
    lines = shown.getvalue().splitlines()
    assert "trial 1/2  optimizer.learning_rate=1e+38" in lines
    assert any(line.startswith("trial 1 failed: the loss became nan") for line in lines)

    calls = refuse_to_train(monkeypatch)
    assert measures(tune(plan, folder / "data", out)) == measures(found)
    monkeypatch.undo()
    calls = Calls(monkeypatch)
    tune(plan, folder / "data", out, retry_failed=True)
    assert calls.directories == [found.rows[0].runs[0].directory]


def broken(*_) -> None:
    raise RuntimeError("out of\nmemory")


def test_an_unexpected_failure_keeps_its_traceback_beside_the_trial(folder, monkeypatch, tmp_path):
    Calls(monkeypatch, at=1, do=broken)
    with pytest.raises(UserError, match="all 1 trials failed, the first because: RuntimeError"):
        tune(make_plan(request(folder, "loss.gamma=5")), folder / "data", tmp_path / "out")
    (record,) = (tmp_path / "out" / "trials").glob("*.json")
    assert "in broken" in json.loads(record.read_text("utf-8"))["traceback"]
    (trial,) = trials_of(tmp_path / "out")
    assert trial["reason"] == "RuntimeError: out of memory"
    assert not (tmp_path / "out" / "best.yaml").exists()


def test_a_full_disk_is_nobodys_setting_and_stops_the_tuning(folder, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    Calls(monkeypatch, at=1, do=full)
    with pytest.raises(OSError, match="No space left"):
        tune(make_plan(request(folder, "loss.gamma=5,10")), folder / "data", tmp_path / "out")
    assert [trial["status"] for trial in trials_of(tmp_path / "out")] == ["waiting", "waiting"]


def test_a_directory_of_something_else_is_left_alone(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(UserError, match="holds something that `dssm tune` did not make"):
        tune(make_plan(request(folder, "loss.gamma=5")), folder / "data", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_log_without_validation_records_cannot_be_tuned_on(folder, tmp_path):
    write_data(tmp_path / "data", click_log(8), validation=())
    with pytest.raises(UserError, match="holds no validation records"):
        tune(make_plan(request(folder, "loss.gamma=5")), tmp_path / "data", tmp_path / "out")


def test_several_machines_cannot_share_a_tuning(folder, monkeypatch, tmp_path):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(UserError, match="runs on one machine"):
        tune(make_plan(request(folder, "loss.gamma=5")), folder / "data", tmp_path / "out")
