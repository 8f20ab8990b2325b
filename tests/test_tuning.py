"""`dssm tune`: what is tried, what is kept across kills, what is chosen and written."""

from __future__ import annotations

import csv
import json
import math
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from itertools import islice, pairwise
from pathlib import Path

import pytest
import yaml
from pytest import approx
from rich.console import Console

import dssm_tf.training
from dssm_tf.cli import main
from dssm_tf.config import load_config
from dssm_tf.errors import UserError
from dssm_tf.keeper import Keeper
from dssm_tf.tuning.plan import Request, make_plan
from dssm_tf.tuning.report import Row, Tuning
from dssm_tf.tuning.space import Range, Values, grid_settings, parse_space, random_settings
from dssm_tf.tuning.trials import data_fingerprint
from dssm_tf.tuning.tune import tune
from tests.clicks import click_log, write_data
from tests.conftest import CHECKOUT

EPOCHS = 2
CONFIG = {
    "tower": {"name": "dssm", "widths": [6]},
    "training": {"epochs": EPOCHS, "batch_size": 16, "xla": False, "refit": True},
}
GRID = ("gamma=5,10", "optimizer.learning_rate=0.01,0.05")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a configuration and a directory of records."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    write_data(folder / "data", click_log(30))
    return folder


def request(folder: Path, *grid: str, **options) -> Request:
    return Request(str(folder / "mine.yaml"), grid, **options)


@pytest.fixture(scope="module")
def tuned(folder) -> Tuning:
    """A grid of four settings, tuned without interruption."""
    return tune(make_plan(request(folder, *GRID)), folder / "data", folder / "tuned")


def trials_of(out: Path) -> list[dict]:
    return json.loads((out / "trials.json").read_text("utf-8"))["trials"]


class Calls:
    """Stands in for `training.train`: counts the runs, and at one of them does what it is told."""

    def __init__(self, monkeypatch, at: int | None = None, do=None) -> None:
        self.directories: list[Path] = []
        real = dssm_tf.training.train

        def train(config, data, out, *, quiet=False):
            self.directories.append(out)
            if len(self.directories) == at:
                do(config, data, out)
            return real(config, data, out, quiet=quiet)

        monkeypatch.setattr(dssm_tf.training, "train", train)


def refuse_to_train(monkeypatch) -> Calls:
    def fail(*_):
        raise AssertionError("trained although nothing was to be done")

    return Calls(monkeypatch, at=1, do=fail)


# ------------------------------------------------------------------------------- what is tried


def test_a_list_of_values_is_yaml():
    space = parse_space(
        ["tower.widths=[300],[300, 128]", "optimizer.clip_norm=null,1.5", "training.monitor=loss"]
    )
    assert space == {
        "tower.widths": Values(([300], [300, 128])),
        "optimizer.clip_norm": Values((None, 1.5)),
        "training.monitor": Values(("loss",)),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma=5:20", Range(5, 20, log=False, whole=True)),
        ("gamma=5.0:20", Range(5.0, 20.0, log=False, whole=False)),
        ("x=log:3e-4:1e-2", Range(0.0003, 0.01, log=True, whole=False)),
        ("tower.cells=log:16:256", Range(16, 256, log=True, whole=True)),
        ("x=-1:1", Range(-1, 1, log=False, whole=True)),
    ],
)
def test_a_range_has_two_ends_and_may_be_logarithmic(text, expected):
    (found,) = parse_space([text]).values()
    assert found == expected
    assert type(found.low) is (int if expected.whole else float)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["gamma"], "expected KEY=VALUE,VALUE"),
        (["=5"], "expected KEY=VALUE,VALUE"),
        (["gamma="], "expected one or more YAML values"),
        (["gamma=5,,10"], "expected one or more YAML values"),
        (["gamma=[5"], "expected one or more YAML values"),
        (["gamma=5,10:20"], "one range, LOW:HIGH or log:LOW:HIGH, or a list"),
        (["gamma=log:a:b"], "one range, LOW:HIGH or log:LOW:HIGH, or a list"),
        (["gamma=20:5"], "from a smaller to a larger number"),
        (["gamma=log:0:5"], "must start above 0"),
        (["gamma=5", "gamma=10"], "gamma was given before"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_quotes_it(grid, message):
    with pytest.raises(UserError) as error:
        parse_space(grid)
    assert message in str(error.value)
    assert repr(grid[-1]) in str(error.value)


def test_a_grid_is_every_combination_the_last_key_fastest():
    space = parse_space(["gamma=5,10", "tower.name=dssm,lstm"])
    assert list(grid_settings(space)) == [
        {"gamma": 5, "tower.name": "dssm"},
        {"gamma": 5, "tower.name": "lstm"},
        {"gamma": 10, "tower.name": "dssm"},
        {"gamma": 10, "tower.name": "lstm"},
    ]


def test_a_share_of_a_range_is_the_number_at_that_place():
    assert Range(4.0, 8.0, log=False, whole=False).pick(0.25) == 5.0
    # A quarter of the way from 1e-4 to 1 in logarithms is 1e-3.
    assert Range(1e-4, 1.0, log=True, whole=False).pick(0.25) == 0.001
    # Three significant digits, but never outside: 1.2344 would be 1.23.
    assert Range(1.2344, 2.0, log=False, whole=False).pick(0.0) == 1.2344
    assert Range(1.0, 2.0, log=False, whole=False).pick(1 / 3) == 1.33
    # 5, 6 and 7 have a third each.
    whole = Range(5, 7, log=False, whole=True)
    assert [whole.pick(share) for share in (0.0, 0.33, 0.34, 0.66, 0.67, 0.999)] == [
        5, 5, 6, 6, 7, 7,
    ]  # fmt: skip
    # 1 and 2 and 3, up to just below 4: ln 2 / ln 4 = 1/2 of the draws are 1.
    ratios = Range(1, 3, log=True, whole=True)
    assert [ratios.pick(share) for share in (0.0, 0.49, 0.51, 0.999)] == [1, 1, 2, 3]
    assert type(ratios.pick(0.5)) is int


def test_draws_are_the_seeds_and_do_not_depend_on_their_number_or_the_order_of_keys():
    keys = ["gamma=5:20", "optimizer.learning_rate=log:0.0003:0.01", "tower.cells=32,64"]
    space, reverse = parse_space(keys), parse_space(keys[::-1])
    first = list(islice(random_settings(space, seed=7), 4))
    assert list(islice(random_settings(space, seed=7), 40))[:4] == first
    assert list(islice(random_settings(reverse, seed=7), 4)) == first
    assert list(islice(random_settings(space, seed=8), 4)) != first
    drawn = list(islice(random_settings(space, seed=7), 400))
    assert {type(one["gamma"]) for one in drawn} == {int}
    assert {one["gamma"] for one in drawn} == set(range(5, 21))
    assert {one["tower.cells"] for one in drawn} == {32, 64}
    rates = [one["optimizer.learning_rate"] for one in drawn]
    assert min(rates) >= 0.0003
    assert max(rates) <= 0.01
    # Uniform in logarithms: half of the draws lie below the geometric mean of the ends, give or
    # take four standard deviations of 400 coins, 4 * sqrt(400) / 2 = 40.
    assert sum(rate < math.sqrt(0.0003 * 0.01) for rate in rates) == approx(200, abs=40)


# --------------------------------------------------------------------------------- the trials


def test_trials_hold_the_settings_as_the_configuration_reads_them(folder):
    plan = make_plan(
        request(folder, "optimizer.learning_rate=1e-3,0.01", overrides=["training.epochs=7"])
    )
    assert [dict(trial.settings) for trial in plan.trials] == [
        {"optimizer.learning_rate": 0.001},
        {"optimizer.learning_rate": 0.01},
    ]
    assert [trial.config.optimizer.learning_rate for trial in plan.trials] == [0.001, 0.01]
    assert {trial.config.training.epochs for trial in plan.trials} == {7}


def test_trials_run_without_refit_and_the_plan_remembers_it(folder):
    plan = make_plan(request(folder, "gamma=5,10"))
    assert plan.refit is True
    assert {trial.config.training.refit for trial in plan.trials} == {False}
    assert make_plan(request(folder, "gamma=5", overrides=["training.refit=false"])).refit is False


def test_the_metric_also_chooses_the_epoch_unless_the_user_says_otherwise(folder):
    plan = make_plan(request(folder, "gamma=5", metric="ndcg@1"))
    assert (plan.metric, plan.trials[0].config.training.monitor) == ("ndcg@1", "ndcg@1")
    own = request(folder, "gamma=5", metric="ndcg@1", overrides=["training.monitor=loss"])
    assert make_plan(own).trials[0].config.training.monitor == "loss"
    assert make_plan(request(folder, "gamma=5")).metric == "ndcg@10"


def test_equal_settings_are_one_trial(folder):
    plan = make_plan(request(folder, "gamma=5,10,5.0"))
    assert [trial.settings["gamma"] for trial in plan.trials] == [5, 10]


def test_random_trials_are_as_many_as_asked_for_or_all_there_are(folder):
    plan = make_plan(request(folder, "gamma=5:6", random=9))
    assert sorted(trial.settings["gamma"] for trial in plan.trials) == [5, 6]
    plan = make_plan(request(folder, "gamma=5:50", random=9, seed=3))
    assert len({trial.settings["gamma"] for trial in plan.trials}) == 9
    again = make_plan(request(folder, "gamma=5:50", random=20, seed=3))
    assert again.trials[:9] == plan.trials


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        (["gama=5"], {}, "at gama=5: "),
        (["gama=5"], {}, "gama is not a key; allowed here: tower, "),
        (["gamma=5,-1"], {}, "at gamma=-1: "),
        (["gamma=5,-1"], {}, "gamma: input should be greater than 0; received -1"),
        (["tower.widths=[6.5]"], {}, "tower.widths.0: "),
        (["gamma=5:20"], {}, "add --random N, or list the values"),
        (["gamma=5"], {"seed": 1}, "--seed is of random draws"),
        (["gamma=5"], {"random": 0}, "from 1 to 1,000"),
        (["gamma=5"], {"metric": "mrr"}, "choose from ndcg@1, ndcg@3, ndcg@10, loss"),
        (["gamma=5"], {"overrides": ["gamma=6"]}, "gamma is in --grid and in --set"),
        (["training.refit=true,false"], {}, "no validation records are left"),
        (["validation.queries=5,10"], {}, "it says what the trials are compared on"),
        (
            ["training.batch_size=8,16"],
            {"metric": "loss"},
            "their losses are not over the same titles",
        ),
        ([f"training.seed={','.join(map(str, range(1001)))}"], {}, "1,001 settings are more"),
        ([], {}, "nothing to tune"),
    ],
)
def test_what_cannot_be_tried_is_an_error_before_anything_is_trained(
    folder, grid, options, message
):
    with pytest.raises(UserError) as error:
        make_plan(request(folder, *grid, **options))
    assert message in str(error.value)


def test_losses_over_the_same_titles_are_compared(folder):
    plan = make_plan(request(folder, "gamma=5,10", metric="loss"))
    assert plan.metric == "loss"
    recorded = ["negatives.in_batch=false", "negatives.recorded=2"]
    sizes = request(folder, "training.batch_size=8,16", metric="loss", overrides=recorded)
    assert len(make_plan(sizes).trials) == 2


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("optimizer.name=adam,bogus", "bogus"),
        ("negatives.recorded=2,9", "negatives.recorded: 9 asked for"),
        ("negatives.in_batch=true,false", "the click needs rivals"),
    ],
)
def test_what_training_would_refuse_is_refused_before_the_first_trial(folder, grid, message):
    out = folder / "refused"
    with pytest.raises(UserError) as error:
        tune(make_plan(request(folder, grid)), folder / "data", out)
    assert message in str(error.value)
    assert not out.exists()


# ----------------------------------------------------------------------- what is chosen, written


def test_the_chosen_configuration_is_that_of_the_best_trial_with_the_users_refit(tuned):
    # What training itself wrote down, trial by trial.
    found = {}
    for row in tuned.rows:
        ranking = json.loads((row.run.directory / "ranking.json").read_text("utf-8"))
        found[row.run.directory] = ranking["validation"]["ndcg@10"]
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
    settings = tuned.best.run.trial.settings
    assert header[1] == (
        f"gamma={settings['gamma']:g} "
        f"optimizer.learning_rate={settings['optimizer.learning_rate']:g}"
    )
    command = f"dssm train --config {folder}/tuned/best.yaml --data {folder}/data --out RUN"
    assert header[-1] == f"Command:    {command}"
    tuned_by = shlex.split(header[-2].removeprefix("Tuned by:"))
    assert tuned_by[:2] == ["dssm", "tune"]
    assert tuned_by.count("--grid") == 2


def test_the_trials_are_listed_with_their_measures_and_runs(tuned):
    summary = json.loads((tuned.out / "trials.json").read_text("utf-8"))
    assert summary["metric"] == "ndcg@10"
    assert [trial["trial"] for trial in summary["trials"]] == [1, 2, 3, 4]
    assert [trial["settings"]["gamma"] for trial in summary["trials"]] == [5, 5, 10, 10]
    for trial in summary["trials"]:
        assert trial["status"] == "finished"
        history = json.loads((tuned.out / trial["run"] / "history.json").read_text("utf-8"))
        assert trial["epochs"] == len(history) == EPOCHS
        assert trial["validation"]["loss"] == history[trial["best_epoch"] - 1]["val_loss"]
    values = [trial["validation"]["ndcg@10"] for trial in summary["trials"]]
    assert values[summary["best"] - 1] == max(values)
    with (tuned.out / "trials.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [float(row["gamma"]) for row in rows] == [5, 5, 10, 10]
    assert [float(row["ndcg@10"]) for row in rows] == values


def test_by_loss_the_smallest_is_chosen_and_ties_go_to_the_first(tuned, folder):
    plan = make_plan(request(folder, *GRID, metric="loss"))
    rows = [
        Row(row.run, replace(row.outcome, validation={"loss": loss}))
        for row, loss in zip(tuned.rows, [3.0, 1.0, 1.0, 2.0], strict=True)
    ]
    by_loss = Tuning(plan, tuned.data, tuned.out, tuned.fingerprint, rows)
    assert [by_loss.number(row) for row in by_loss.ranked] == [2, 3, 4, 1]


# ---------------------------------------------------------------------------- killed, gone on with


class Killed(BaseException):
    """The process's end, which nothing may catch."""


def kill(*_) -> None:
    raise Killed


def measures(tuning: Tuning) -> list[tuple]:
    return [
        (row.outcome.status, row.outcome.validation, row.outcome.best_epoch) for row in tuning.rows
    ]


def test_a_kill_in_the_second_trial_costs_at_most_its_running_epoch(tuned, folder, monkeypatch):
    epochs: list[Path] = []
    saved = Keeper.on_epoch_end

    def on_epoch_end(self, epoch, logs=None):
        saved(self, epoch, logs)
        epochs.append(epoch)
        if len(epochs) == EPOCHS + 1:  # the first trial is done, and one epoch of the second
            raise Killed

    monkeypatch.setattr(Keeper, "on_epoch_end", on_epoch_end)
    plan, out = make_plan(request(folder, *GRID)), folder / "killed"
    with pytest.raises(Killed):
        tune(plan, folder / "data", out)
    assert [trial["status"] for trial in trials_of(out)] == ["finished"] + 3 * ["waiting"]
    assert not (out / "best.yaml").exists()

    calls = Calls(monkeypatch)
    again = tune(plan, folder / "data", out)
    assert len(calls.directories) == 3
    # Of the second trial only the second epoch is left, numbered from 0; then two whole trials.
    assert epochs == [0, 1, 0, 1, 0, 1, 0, 1]
    assert measures(again) == measures(tuned)
    assert load_config(out / "best.yaml") == load_config(tuned.out / "best.yaml")


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
    (out / tuned.rows[2].run.record.relative_to(tuned.out)).unlink()
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
    plan = make_plan(request(folder, "gamma=10,20", "optimizer.learning_rate=0.05"))
    wider = tune(plan, folder / "data", out)
    assert [path.name for path in calls.directories] == [wider.rows[1].run.identity]
    assert measures(wider)[0] == measures(tuned)[3]
    assert before < {path.name for path in (out / "trials").iterdir()}
    assert [trial["settings"]["gamma"] for trial in trials_of(out)] == [10, 20]


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
    config = out / "trials" / tuned.rows[1].run.identity / "config.yaml"
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


# ------------------------------------------------------------------------------- what goes wrong


def test_a_diverging_trial_is_reported_in_its_row_and_the_others_go_on(folder, monkeypatch):
    out, shown = folder / "diverging", StringIO()
    # Steps of 1e38 overflow float32.
    plan = make_plan(request(folder, "optimizer.learning_rate=1e38,0.05"))
    found = tune(plan, folder / "data", out, console=Console(file=shown, width=100))
    failed, finished = trials_of(out)
    assert (failed["status"], finished["status"]) == ("failed", "finished")
    assert "the loss became nan at epoch 1" in failed["reason"]
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
    assert calls.directories == [found.rows[0].run.directory]


def broken(*_) -> None:
    raise RuntimeError("out of\nmemory")


def test_an_unexpected_failure_keeps_its_traceback_beside_the_trial(folder, monkeypatch, tmp_path):
    Calls(monkeypatch, at=1, do=broken)
    with pytest.raises(UserError, match="all 1 trials failed, the first because: RuntimeError"):
        tune(make_plan(request(folder, "gamma=5")), folder / "data", tmp_path / "out")
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
        tune(make_plan(request(folder, "gamma=5,10")), folder / "data", tmp_path / "out")
    assert [trial["status"] for trial in trials_of(tmp_path / "out")] == ["waiting", "waiting"]


def test_a_damaged_trial_says_what_to_remove(tuned, folder, tmp_path):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    ranking = out / "trials" / tuned.rows[0].run.identity / "ranking.json"
    ranking.write_text("{", "utf-8")
    with pytest.raises(UserError, match=f"{tuned.rows[0].run.identity}.*damaged.*remove"):
        tune(make_plan(request(folder, *GRID)), folder / "data", out)


def test_a_directory_of_something_else_is_left_alone(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(UserError, match="holds something that `dssm tune` did not make"):
        tune(make_plan(request(folder, "gamma=5")), folder / "data", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_log_without_validation_records_cannot_be_tuned_on(folder, tmp_path):
    write_data(tmp_path / "data", click_log(8), validation=())
    with pytest.raises(UserError, match="holds no validation records"):
        tune(make_plan(request(folder, "gamma=5")), tmp_path / "data", tmp_path / "out")


def test_several_machines_cannot_share_a_tuning(folder, monkeypatch, tmp_path):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(UserError, match="runs on one machine"):
        tune(make_plan(request(folder, "gamma=5")), folder / "data", tmp_path / "out")


# ------------------------------------------------------------------------------- the command


def command(folder: Path, out: Path, *more: str) -> list[str]:
    grid = [word for one in GRID for word in ("--grid", one)]
    config, data = str(folder / "mine.yaml"), str(folder / "data")
    return ["tune", "--config", config, "--data", data, "--out", str(out), *grid, *more]


def test_the_command_prints_the_table_best_first_and_what_is_next(
    tuned, folder, monkeypatch, tmp_path, capsys
):
    out = Path(shutil.copytree(tuned.out, tmp_path / "out"))
    refuse_to_train(monkeypatch)
    assert main(command(folder, out)) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == "4 of 4 trials were done before and are kept"
    heading = ["trial", "gamma", "learning_rate", "NDCG@1", "@3", "@10", "loss", "epoch", "s"]
    start = [line.split() for line in lines].index(heading) + 1
    rows = [line.split() for line in lines[start : start + 4]]
    order = [tuned.number(row) for row in tuned.ranked]
    assert [int(row[0]) for row in rows] == order
    best = tuned.best.outcome
    assert float(rows[0][1]) == tuned.best.run.trial.settings["gamma"]
    assert float(rows[0][5]) == approx(best.validation["ndcg@10"], abs=5e-5)
    assert lines[-1].startswith("next: dssm train --config ")
    assert shown.err == ""


def test_the_arguments_make_the_request(folder, monkeypatch, tmp_path):
    seen = {}
    monkeypatch.setattr(
        "dssm_tf.tuning.tune.tune",
        lambda plan, data, out, **options: seen.update(plan=plan, out=out, **options),
    )
    out = tmp_path / "out"
    more = ["--random", "3", "--seed", "4", "--metric", "ndcg@1", "--set", "training.epochs=7"]
    assert main(command(folder, out, *more, "--retry-failed")) == 0
    assert seen["plan"].request == request(
        folder, *GRID, random=3, seed=4, metric="ndcg@1", overrides=("training.epochs=7",)
    )
    assert seen["out"] == out
    assert seen["retry_failed"] is True
    assert {trial.config.training.epochs for trial in seen["plan"].trials} == {7}


def test_a_mistyped_key_is_one_line_and_nothing_is_made(folder, tmp_path, capsys):
    assert main(command(folder, tmp_path / "out", "--grid", "optimizer.rate=1")) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dssm tune: --grid, at ")
    assert "optimizer.rate is not a key; allowed here: name, learning_rate" in line
    assert not (tmp_path / "out").exists()


def test_help_imports_nothing_heavy(checkout):
    code = """
import sys
from dssm_tf.cli import main
try:
    main(["tune", "--help"])
except SystemExit:
    pass
heavy = ("tensorflow", "keras", "numpy", "rich", "pydantic", "yaml")
sys.exit(" ".join(name for name in heavy if name in sys.modules) or 0)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=checkout)
    assert (found.returncode, found.stderr) == (0, b"")


def test_the_papers_configuration_can_be_tuned_as_the_guide_says():
    guide = (CHECKOUT / "docs" / "tuning.md").read_text("utf-8")
    joined = guide.replace("\\\n", " ")
    commands = [
        shlex.split(line) for line in joined.splitlines() if line.startswith("    dssm tune ")
    ]
    assert any("paper/lstm-96" in words for words in commands)
    for words in commands:
        options = dict.fromkeys(("--config", "--random", "--seed", "--metric"))
        options |= {name: words[words.index(name) + 1] for name in options if name in words}

        def every(name, words=words):
            return tuple(after for word, after in pairwise(words) if word == name)

        number = {name: options[f"--{name}"] for name in ("random", "seed")}
        whole = {name: int(value) for name, value in number.items() if value is not None}
        plan = make_plan(
            Request(
                options["--config"],
                every("--grid"),
                metric=options["--metric"],
                overrides=every("--set"),
                **whole,
            )
        )
        assert plan.trials
