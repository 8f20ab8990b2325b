"""`dssm tune` on the command line."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from pytest import approx

from dssm_tf.cli import main
from dssm_tf.evaluation.intervals import interval
from dssm_tf.tuning.plan import Request, make_plan
from tests.conftest import CHECKOUT
from tests.tuning.requests import GRID, refuse_to_train, request


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
    start = [line.split() for line in lines].index(heading) + 2  # below the rule
    rows = [line.split() for line in lines[start : start + 8 : 2]]
    order = [tuned.number(row) for row in tuned.ranked]
    assert [int(row[0]) for row in rows] == order
    best = tuned.best.outcome
    assert float(rows[0][1]) == tuned.best.trial.settings["loss.gamma"]
    assert float(rows[0][5]) == approx(best.validation["ndcg@10"], abs=5e-5)
    ends = lines[start + 1].split()  # below each row, of each mean
    values = best.validation
    assert ends[2] == interval(values["low ndcg@10"], values["high ndcg@10"])
    few = f"chosen on {values['queries']:.0f} queries, fewer than 200"
    assert any(few in line for line in lines)
    assert few in (out / "best.yaml").read_text("utf-8")
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
