"""Settings chosen on several logs and seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.config import load_config
from dssm_tf.tuning.plan import Request, Trial, make_plan
from dssm_tf.tuning.report import Row, Tuning
from dssm_tf.tuning.trials import Outcome
from dssm_tf.tuning.tune import tune
from tests.clicks import click_log, write_data
from tests.tuning.requests import Calls, request, trials_of


def tuning_of(values, metric="ndcg@10") -> Tuning:
    """A finished tuning with these values, `(trials, logs, seeds)`."""
    trials, logs, seeds = np.shape(values)
    grid = (f"loss.gamma={','.join(str(5 + number) for number in range(trials))}",)
    plan = make_plan(Request("dssm", grid, metric=metric, seeds=seeds))
    rows = [
        Row(trial, [None] * (logs * seeds), [
            Outcome("finished", {metric: float(value), "queries": 500.0})
            for value in np.ravel(of_trial)
        ])
        for trial, of_trial in zip(plan.trials, values, strict=True)
    ]  # fmt: skip
    data = [Path(f"log{number}") for number in range(logs)]
    return Tuning(plan, data, Path("out"), ["x"] * logs, rows)


def test_a_log_of_hard_queries_counts_as_much_as_one_of_easy_queries():
    # By plain means the first would win by .01; it is behind by a tenth on the hard log.
    tuning = tuning_of([[[0.95], [0.18]], [[0.92], [0.20]]])
    assert tuning.number(tuning.best) == 2
    assert tuning.value(tuning.rows[0]) == pytest.approx((1 + 0.9) / 2)
    assert tuning.value(tuning.rows[1]) == pytest.approx((0.92 / 0.95 + 1) / 2)


def test_by_loss_the_least_share_of_the_least_is_best():
    tuning = tuning_of([[[2.0], [0.3]], [[3.0], [0.2]]], "loss")
    assert tuning.value(tuning.rows[0]) == pytest.approx((1 + 1.5) / 2)
    assert tuning.number(tuning.best) == 1


def test_trials_that_seeds_do_not_tell_from_the_best_are_named():
    seeds = [[0.80, 0.82, 0.84], [0.79, 0.81, 0.83], [0.60, 0.61, 0.62]]
    tuning = tuning_of([[one] for one in seeds])
    assert stats.ttest_ind(seeds[0], seeds[1], equal_var=False).pvalue > 0.05
    assert [tuning.number(row) for row in tuning.alike] == [2]
    (said,) = tuning.cautions
    assert said.startswith("Trial 2: not told from the best one by 3 seeds (t-test")
    same = tuning_of([[[0.5, 0.5]], [[0.5, 0.5]], [[0.4, 0.4]]])
    assert [same.number(row) for row in same.alike] == [2]


def test_one_seed_tells_nothing_of_seeds():
    assert tuning_of([[[0.8]], [[0.8]]]).alike == []


def test_each_setting_is_trained_on_each_log_with_each_seed(folder, tmp_path, monkeypatch, capsys):
    write_data(tmp_path / "other", click_log(20))
    logs = [str(folder / "data"), str(tmp_path / "other")]
    out = tmp_path / "out"
    words = ["tune", "--config", str(folder / "mine.yaml"), "--data", *logs, "--out", str(out)]
    words += ["--grid", "loss.gamma=5", "--seeds", "2", "--set", "training.epochs=1"]
    calls = Calls(monkeypatch)
    assert main(words) == 0
    runs = [run for trial in trials_of(out) for run in trial["runs"]]
    expected = [(log, seed) for log in logs for seed in (0, 1)]
    assert [(run["data"], run["seed"]) for run in runs] == expected
    assert [path.name for path in calls.directories] == [Path(run["run"]).name for run in runs]
    for run in runs:
        assert load_config(out / run["run"] / "config.yaml").training.seed == run["seed"]
    table = capsys.readouterr().out
    assert "by validation mean share of the best ndcg@10" in table
    assert "other, seed 1" in table
    head = (out / "best.yaml").read_text("utf-8")
    assert "#   other: ndcg@10 " in head
    assert "--data DATA --out RUN" in head
    assert load_config(out / "best.yaml").training.seed == 0
    # Given again, nothing is trained.
    assert main(words) == 0
    assert len(calls.directories) == 4


def test_two_seeds_cannot_both_be_said_and_a_log_counts_once(folder, tmp_path):
    with pytest.raises(UserError, match="--seeds both change the seed"):
        make_plan(request(folder, "training.seed=1,2", seeds=2))
    with pytest.raises(UserError, match="--seeds 0: expected a number from 1"):
        make_plan(request(folder, "loss.gamma=5", seeds=0))
    data = folder / "data"
    with pytest.raises(UserError, match="two of them hold the same records"):
        tune(make_plan(request(folder, "loss.gamma=5")), [data, data], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_seed_changes_the_seed_alone():
    trial = Trial({}, load_config("configs/dssm.yaml"))
    changed = trial.seeded(2).config
    assert changed.training.seed == trial.config.training.seed + 2
    assert changed.model_copy(update={"training": trial.config.training}) == trial.config
