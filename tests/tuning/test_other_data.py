"""Tuning on judgments, and on folds of a log without a validation part."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config
from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.tune import tune
from tests.clicks import Data, click_log, write_data
from tests.graded.files import write
from tests.tuning.requests import Calls, Killed, kill, refuse_to_train, request


@pytest.fixture
def judgments(tmp_path):
    """A function that writes a table of judgments with other draws."""
    data: Data = write_data(tmp_path / "log", click_log(30))
    return lambda seed: write(tmp_path / "judgments.tsv", data, seed=seed)


def test_trials_learn_from_judgments_and_are_tied_to_the_table(
    folder, tmp_path, judgments, monkeypatch
):
    table, out = judgments(seed=1), tmp_path / "out"
    overrides = [f"judgments.file={table}", "training.epochs=1"]
    plan = make_plan(request(folder, "loss.gamma=5", overrides=overrides))
    (row,) = tune(plan, folder / "data", out).rows
    assert row.outcome.status == "finished"
    assert load_config(out / "best.yaml").judgments.sha256
    refuse_to_train(monkeypatch)
    tune(plan, folder / "data", out)  # what is done is kept
    monkeypatch.undo()
    judgments(seed=2)
    calls = Calls(monkeypatch, at=1, do=kill)
    with pytest.raises(Killed):
        tune(plan, folder / "data", out)  # another table, another trial
    assert calls.directories != [row.runs[0].directory]


def test_another_table_than_the_one_asked_for_leaves_nothing_behind(folder, tmp_path, judgments):
    overrides = [f"judgments.file={judgments(seed=1)}", "judgments.sha256=0123456789abcdef"]
    plan = make_plan(request(folder, "loss.gamma=5", overrides=overrides))
    with pytest.raises(UserError, match=r"the configuration asks for 0123456789abcdef"):
        tune(plan, folder / "data", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folds_need_no_validation_part(folder, tmp_path, monkeypatch):
    data = write_data(tmp_path / "data", click_log(30), validation=0.0).path
    with pytest.raises(UserError, match=r"holds no validation records.*or --set training\.folds"):
        tune(make_plan(request(folder, "loss.gamma=5")), data, tmp_path / "out")
    Calls(monkeypatch, at=1, do=kill)
    folds = make_plan(request(folder, "loss.gamma=5", overrides=["training.folds=2"]))
    with pytest.raises(Killed):  # it trains
        tune(folds, data, tmp_path / "out")
