"""Complete searches, including killed, failed and pruned trials."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from optuna.trial import TrialState
from pytest import approx
from rich.console import Console

from dssm_tf.cli import main
from dssm_tf.common import versions as versions_module
from dssm_tf.common.errors import UserError
from dssm_tf.common.versions import versions
from dssm_tf.config import load_config
from dssm_tf.training.checkpoint import Checkpoint
from dssm_tf.training.run_directory import Result
from dssm_tf.tuning import tune as tune_module
from dssm_tf.tuning.tune import tune
from tests.clicks import click_log, write_data
from tests.data.graded.files import write
from tests.tuning.test_search import search

pytestmark = pytest.mark.long  # trainings

GRID = ("loss.gamma=5,10", "optimizer.learning_rate=0.05")


class Killed(BaseException):
    """Simulates that the process is killed; `except Exception` does not catch it."""


class Training:
    """Replaces `train`.

    Args:
        monkeypatch: the fixture of the test.
        ndcg: a function from a configuration and data to the metric of each epoch; it may raise.
    """

    def __init__(self, monkeypatch, ndcg) -> None:
        self.runs: list[Path] = []

        def train(config, data, out, quiet, callbacks):
            self.runs.append(out)
            values = ndcg(config, data)
            for epoch, value in enumerate(values):
                for callback in callbacks:
                    callback.on_epoch_end(epoch, {"ndcg@10": value})
            metrics = [{"val_loss": value} for value in values]
            return Result(
                len(values), len(values), metrics, 0.0, {"ndcg@10": values[-1], "queries": 9}
            )

        monkeypatch.setattr(tune_module, "train", train)
        # There is no model to free, and freeing takes a second per trial.
        monkeypatch.setattr(tune_module.keras.utils, "clear_session", lambda: None)


def by_gamma(config, data=None) -> list[float]:
    return [config.loss.gamma / 100]


def table(out: Path) -> list[dict[str, str]]:
    with (out / "trials.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture(scope="module")
def finished_search(folder, tmp_path_factory):
    """The directory of a search with real training, and its output."""
    out, output = tmp_path_factory.mktemp("searched") / "out", StringIO()
    tune(search(folder, *GRID), [folder / "data"], out, console=Console(file=output, width=100))
    return out, output


def test_the_best_configuration_refits_as_requested_and_has_a_training_command(finished_search):
    out, output = finished_search
    rows = table(out)
    rankings = {
        row["trial"]: json.loads((out / row["runs"] / "ranking.json").read_text("utf-8"))
        for row in rows
    }
    # The metrics that each training run wrote.
    values = {trial: ranking["validation"]["ndcg@10"] for trial, ranking in rankings.items()}
    assert [float(row["ndcg@10"]) for row in rows] == approx(
        sorted(values.values())[::-1], abs=5e-5
    )
    assert {ranking["refitted"] for ranking in rankings.values()} == {False}
    best = load_config(out / rows[0]["runs"] / "config.yaml").model_dump()
    best["training"]["refit"] = True
    assert load_config(out / "best.yaml").model_dump() == best
    head = (out / "best.yaml").read_text("utf-8")
    assert head.startswith("# Chosen by validation ndcg@10 from 2 trials; 0 failed")
    assert f"dssm train --config {out}/best.yaml --data DATA --out RUN" in head
    assert "fewer than 200" in head
    lines = output.getvalue().splitlines()
    assert "trial 1: loss.gamma=10 optimizer.learning_rate=0.05" in lines
    assert lines[-1].startswith("Command:    dssm train --config ")


def test_after_a_kill_only_the_interrupted_epoch_is_repeated(
    folder, tmp_path, monkeypatch, finished_search
):
    epochs: list[int] = []
    save = Checkpoint.on_epoch_end

    def save_and_count(self, *arguments):
        save(self, *arguments)
        epochs.append(self.epoch - 1)
        if len(epochs) == 3:  # after the first trial and one epoch of the second
            raise Killed

    monkeypatch.setattr(Checkpoint, "on_epoch_end", save_and_count)
    arguments = search(folder, *GRID), [folder / "data"], tmp_path / "out"
    with pytest.raises(Killed):
        tune(*arguments)
    assert not (tmp_path / "out" / "best.yaml").exists()
    tune(*arguments)
    assert epochs == [0, 1, 0, 1]  # the second call trains only the second trial's second epoch
    resumed, uninterrupted = (
        (out / "trials.tsv").read_bytes() for out in (tmp_path / "out", finished_search[0])
    )
    assert resumed == uninterrupted


@pytest.mark.parametrize("options", [{"random": 6}, {"tpe": 6}])
def test_a_killed_search_resumes_and_tries_the_same_number_of_distinct_settings(
    folder, tmp_path, monkeypatch, options
):
    requested_search = search(folder, "loss.gamma=1.0:1000.0", **options)

    def kill_in_third_run(config, data):
        if len(training.runs) == 3:
            raise Killed
        return by_gamma(config)

    training = Training(monkeypatch, kill_in_third_run)
    with pytest.raises(Killed):
        tune(requested_search, [folder / "data"], tmp_path / "out")
    tune(requested_search, [folder / "data"], tmp_path / "out")
    rows = table(tmp_path / "out")
    assert len({row["loss.gamma"] for row in rows}) == 6
    assert len(training.runs) == 7
    assert training.runs.count(training.runs[2]) == 2
    Training(monkeypatch, by_gamma)
    tune(requested_search, [folder / "data"], tmp_path / "uninterrupted")
    assert rows == table(tmp_path / "uninterrupted")


def test_a_killed_grid_has_the_same_table_as_one_that_was_not_interrupted(
    folder, tmp_path, monkeypatch
):
    def equal_or_killed(config, data):
        if len(training.runs) == 2:
            raise Killed
        return [0.5]

    grid = search(folder, "loss.gamma=5,10,15,20")
    training = Training(monkeypatch, equal_or_killed)
    with pytest.raises(Killed):
        tune(grid, [folder / "data"], tmp_path / "killed")
    for name in ("killed", "whole"):
        Training(monkeypatch, lambda config, data: [0.5])
        tune(grid, [folder / "data"], tmp_path / name)
    assert table(tmp_path / "killed") == table(tmp_path / "whole")
    assert [row["loss.gamma"] for row in table(tmp_path / "whole")] == ["5", "10", "15", "20"]


def test_a_best_value_at_the_edge_of_the_tried_ones_has_a_warning(folder, tmp_path, monkeypatch):
    Training(monkeypatch, by_gamma)
    for grid, best, warning in (
        ("5,10,20", 20, "loss.gamma=20 is at the edge of the values that were tried, the largest"),
        ("20", 20, ""),
    ):
        out = tmp_path / grid
        tune(search(folder, f"loss.gamma={grid}"), [folder / "data"], out)
        assert load_config(out / "best.yaml").loss.gamma == best
        head = (out / "best.yaml").read_text("utf-8")
        assert ("WARNING" in head) == bool(warning)
        assert warning in head


def test_settings_of_how_trials_are_trained_are_not_in_the_best_configuration(
    folder, tmp_path, monkeypatch
):
    training = Training(monkeypatch, by_gamma)
    overrides = ("training.epochs=7", "ranking.prior=0.25")
    tune(search(folder, "loss.gamma=5,10", overrides=overrides), [folder / "data"], tmp_path / "o")
    del training
    best = load_config(tmp_path / "o" / "best.yaml")
    assert best.training.epochs == search(folder, "loss.gamma=5").build_config().training.epochs
    assert best.ranking.prior == 0.25
    head = (tmp_path / "o" / "best.yaml").read_text("utf-8")
    assert "Trials had training.epochs=7, which are not in this file." in head


def test_random_settings_are_in_their_ranges_and_the_first_ones_do_not_depend_on_the_number(
    folder, tmp_path, monkeypatch
):
    Training(monkeypatch, by_gamma)
    keys = ("optimizer.learning_rate=log:0.001:0.1", "training.batch_size=8:16", "loss.gamma=5,9")

    def settings(number):
        random_search = search(folder, *keys, random=number, seed=3)
        return [
            trial.params
            for trial in tune(random_search, [folder / "data"], tmp_path / f"{number}").trials
        ]

    few, many = settings(3), settings(40)
    assert many[:3] == few
    rates = [setting["optimizer.learning_rate"] for setting in many]
    assert 0.001 <= min(rates) < max(rates) <= 0.1
    assert 12 <= sum(rate < 0.01 for rate in rates) <= 28  # log-uniform: about half
    assert {setting["training.batch_size"] for setting in many} == set(range(8, 17))
    assert {setting["loss.gamma"] for setting in many} == {"5", "9"}


def test_tpe_suggests_better_settings_over_time(folder, tmp_path, monkeypatch):
    Training(monkeypatch, lambda config, data: [1 - abs(by_gamma(config)[0] - 0.12)])
    study = tune(
        search(folder, "loss.gamma=1.0:100.0", tpe=20, seed=1), [folder / "data"], tmp_path / "out"
    )
    late = [abs(trial.params["loss.gamma"] - 12) for trial in study.trials[13:]]
    early = [abs(trial.params["loss.gamma"] - 12) for trial in study.trials[:10]]
    assert sum(late) / len(late) < sum(early) / len(early)


def test_a_setting_worse_than_the_median_is_pruned_and_listed(folder, tmp_path, monkeypatch):
    Training(monkeypatch, lambda config, data: [by_gamma(config)[0] + n / 1000 for n in range(4)])
    grid = "loss.gamma=10,11,12,13,14,5,20"
    study = tune(search(folder, grid, prune=True), [folder / "data"], tmp_path / "out")
    states = {trial.params["loss.gamma"]: trial.state for trial in study.trials}
    assert states["5"] == TrialState.PRUNED
    assert states["20"] == TrialState.COMPLETE
    assert table(tmp_path / "out")[-1]["state"] == "pruned"


def test_a_log_with_hard_queries_has_the_same_influence_as_others(folder, tmp_path, monkeypatch):
    write_data(tmp_path / "hard", click_log(20))
    values = {("5", "data"): 0.95, ("5", "hard"): 0.18, ("10", "data"): 0.92, ("10", "hard"): 0.2}
    Training(
        monkeypatch,
        lambda config, data: [values[f"{config.loss.gamma:g}", data.name]],
    )
    study = tune(
        search(folder, "loss.gamma=5,10"), [folder / "data", tmp_path / "hard"], tmp_path / "out"
    )
    # By arithmetic means the first would win by 0.005. By geometric means the second wins:
    # sqrt(0.92 * 0.2) > sqrt(0.95 * 0.18).
    assert study.best_params == {"loss.gamma": "10"}
    assert study.best_value == approx((0.92 * 0.2) ** 0.5)
    assert "--data DATA --out RUN" in (tmp_path / "out" / "best.yaml").read_text("utf-8")
    assert [row["hard"] for row in table(tmp_path / "out")] == ["0.2000", "0.1800"]


def test_the_table_has_means_over_seeds_and_standard_deviations(folder, tmp_path, monkeypatch):
    values = {5: [0.80, 0.82, 0.84], 6: [0.79, 0.81, 0.83], 7: [0.60, 0.61, 0.62]}
    training = Training(
        monkeypatch,
        lambda config, data: [values[config.loss.gamma][config.training.seed]],
    )
    grid = search(folder, "loss.gamma=5,6,7", seeds=3)
    tune(grid, [folder / "data"], tmp_path / "out")
    cells = [row["data"] for row in table(tmp_path / "out")]
    assert cells == ["0.8200 ±0.0200", "0.8100 ±0.0200", "0.6100 ±0.0100"]
    assert len(set(training.runs)) == 9
    assert load_config(tmp_path / "out" / "best.yaml").training.seed == 0


def test_a_failed_trial_is_listed_and_retried(folder, tmp_path, monkeypatch):
    failing = True

    def fail_for_gamma_5(config, data):
        if failing and config.loss.gamma == 5:
            raise RuntimeError("out of\nmemory")
        return by_gamma(config)

    training = Training(monkeypatch, fail_for_gamma_5)
    arguments = search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out"
    tune(*arguments)
    assert [row["state"] for row in table(tmp_path / "out")] == [
        "complete",
        "RuntimeError: out of memory",
    ]
    failing = False
    tune(*arguments)
    assert len(training.runs) == 3
    assert [row["state"] for row in table(tmp_path / "out")] == ["complete", "complete"]


def test_if_all_trials_fail_the_error_has_the_first_reason(folder, tmp_path, monkeypatch):
    def fails(config, data):
        raise RuntimeError(f"no {config.loss.gamma:g}")

    Training(monkeypatch, fails)
    reason = "all 2 trials failed, the first because: RuntimeError: no 5. Fix"
    with pytest.raises(UserError, match=reason):
        tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out")
    states = [row["state"] for row in table(tmp_path / "out")]
    assert states == ["RuntimeError: no 5", "RuntimeError: no 10"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), MemoryError("no memory")]
)
def test_a_full_disk_or_memory_stops_the_search(folder, tmp_path, monkeypatch, error):
    def full(config, data):
        raise error

    Training(monkeypatch, full)
    with pytest.raises(type(error), match=str(error.args[-1])):
        tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out")
    training = Training(monkeypatch, by_gamma)
    tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out")
    assert len(training.runs) == 2


def test_a_second_search_in_the_same_directory_is_refused_with_exit_code_1(
    folder, tmp_path, monkeypatch, capsys
):
    arguments = ["tune", "--config", str(folder / "mine.yaml"), "--data", str(folder / "data")]
    arguments += ["--out", str(tmp_path / "out"), "--grid", "loss.gamma=5"]
    exit_codes = []

    def start_second_search(config, data):
        exit_codes.append(main(arguments))
        return [0.5]

    Training(monkeypatch, start_second_search)
    assert main(arguments) == 0
    assert exit_codes == [1]
    line = f"dssm tune: {tmp_path / 'out'} is being written by another process.\n"
    assert capsys.readouterr().err == line


def test_changed_data_tables_or_versions_start_new_runs(folder, tmp_path, monkeypatch):
    log = write_data(tmp_path / "log", click_log(30))
    overrides = [f"judgments.file={write(tmp_path / 'judgments.tsv', log, seed=1)}"]
    grid = search(folder, "loss.gamma=5", overrides=overrides)
    training = Training(monkeypatch, by_gamma)

    def run_count(data=folder / "data"):
        tune(grid, [data], tmp_path / "out")
        return len(training.runs)

    assert [run_count(), run_count()] == [1, 1]
    assert load_config(tmp_path / "out" / "best.yaml").judgments.sha256
    write(tmp_path / "judgments.tsv", log, seed=2)
    assert run_count() == 2
    other = write_data(tmp_path / "other", click_log(20)).path
    assert run_count(other) == 3
    monkeypatch.setattr(versions_module, "versions", lambda: {**versions(), "keras": "0.0"})
    assert run_count(other) == 4
    assert len(set(training.runs)) == 4


def test_other_directories_and_untrainable_settings_are_refused(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(UserError, match=r"contains no trials\.db, which this command writes"):
        tune(search(folder, "loss.gamma=5"), [folder / "data"], tmp_path)
    data = write_data(tmp_path / "data", click_log(8), validation=()).path
    with pytest.raises(UserError, match=r"contains no validation records.*--set training\.folds"):
        tune(search(folder, "loss.gamma=5"), [data], tmp_path / "out")
    with pytest.raises(UserError, match=r"negatives\.recorded: received 9"):
        tune(search(folder, "negatives.recorded=2,9"), [folder / "data"], tmp_path / "out")
    with pytest.raises(UserError, match=r"letter_ngrams: received pairs, .*--letter-ngrams pairs,"):
        tune(
            search(folder, "letter_ngrams=[trigrams],[pairs]"), [folder / "data"], tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_the_command_passes_its_flags_to_the_search(folder, tmp_path, monkeypatch, capsys):
    received = {}

    def record(search, data, out, console):
        received.update(search=search, data=data, out=out)

    monkeypatch.setattr(tune_module, "tune", record)
    config, data, out = (str(folder / name) for name in ("mine.yaml", "data", "out"))
    arguments = ["tune", "--config", config, "--data", data, data, "--out", out, "--grid", GRID[0]]
    optional = ["--grid", GRID[1], "--tpe", "3", "--seed", "4", "--seeds", "2"]
    optional += ["--set", "training.epochs=7", "--prune"]
    assert main(arguments + optional) == 0
    options = {"tpe": 3, "seed": 4, "seeds": 2, "prune": True}
    expected = search(folder, *GRID, overrides=("training.epochs=7",), **options)
    paths = {"data": (Path(data), Path(data)), "out": Path(out)}
    assert received == {"search": expected, **paths}
    assert main([*arguments, "--grid", "optimizer.rate=1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "optimizer.rate is not a key; allowed here: name, learning_rate" in line
