"""The nightly release: its steps, failures, switch, lock and rollback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from dssm_tf.retrieval.opening import open_index
from examples.nightly_release import main, run_dssm
from tests.clicks import click_log


class Commands:
    """Replaces dssm: writes the directory of each step.

    Attributes:
        steps: the arguments of each step.
        fail: number of the step that fails; None for none.
        code: exit code of that step.
    """

    def __init__(self):
        self.steps = []
        self.fail = None
        self.code = 1

    def __call__(self, arguments):
        self.steps.append([*arguments])
        if len(self.steps) - 1 == self.fail:
            return self.code
        out = Path(self.flag("--out") or self.flag("--output"))
        (out / "maxsim/1" if arguments[0] == "export" else out).mkdir(parents=True)
        return 0

    def flag(self, name):
        step = self.steps[-1]
        return step[step.index(name) + 1] if name in step else None

    @property
    def names(self):
        return [step[0] for step in self.steps]


@pytest.fixture
def commands():
    return Commands()


@pytest.fixture
def run_night(tmp_path, monkeypatch, commands):
    """Adds the log of a day, if given, and runs the script; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    Path("LOGS").mkdir()
    Path("corpus.tsv").write_text("doc_id\ttitle\n", "utf-8")

    def run(day="", *flags):
        if day:
            Path("LOGS", f"{day}.tsv").touch()
        commands.steps.clear()
        arguments = ["--log", "LOGS", "--corpus", "corpus.tsv", "--releases", "R", *flags]
        return main(arguments, commands)

    return run


def live_release():
    return os.readlink("R/live")


def test_the_first_night_trains_and_releases_without_a_gate(run_night, commands):
    assert run_night("day-1") == 0
    assert commands.names == ["preprocess", "train", "index"]
    assert sorted(os.listdir("R/live")) == ["index", "release.json", "run"]
    assert not Path("R/unfinished").exists()


def test_the_next_night_learns_only_new_clicks_from_the_live_model_after_the_gate(
    run_night, commands
):
    run_night("day-1")
    first = live_release()
    assert run_night("day-2") == 0
    assert commands.names == [
        "data", "preprocess", "train", "evaluate", "preprocess", "train", "index",
    ]  # fmt: skip
    split, train_data, candidate, gate, all_data, final, _ = commands.steps
    assert split[split.index("--clicks") + 1 :][:1] == ["LOGS/day-2.tsv"]
    assert "LOGS/day-1.tsv" not in [argument for step in commands.steps for argument in step]
    assert train_data[train_data.index("--input") + 1] == "R/unfinished/split/clicks.tsv"
    assert all_data[all_data.index("--input") + 1] == "LOGS/day-2.tsv"
    for step, flag in ((candidate, "--from"), (final, "--from"), (train_data, "--vocabulary-from")):
        assert step[step.index(flag) + 1] == f"R/{first}/run"
    assert gate[gate.index("--against") + 1] == f"live=R/{first}/run"
    content = json.loads(Path("R/live/release.json").read_text("utf-8"))
    assert content == {"log_files": ["day-1.tsv", "day-2.tsv"], "replaces": first}
    assert live_release() != first


@pytest.mark.parametrize("fail", range(7))
def test_after_a_failed_step_the_live_release_stays_and_the_next_night_learns_its_clicks(
    run_night, commands, fail
):
    run_night("day-1")
    first, before = live_release(), sorted(os.listdir("R"))
    commands.fail, commands.code = fail, 3
    assert run_night("day-2") == 3
    assert live_release() == first
    assert sorted(os.listdir("R")) == sorted([*before, "unfinished"])
    commands.fail = None
    assert run_night("day-3") == 0
    split = commands.steps[0]
    assert [value for value in split if value.startswith("LOGS")] == [
        "LOGS/day-2.tsv",
        "LOGS/day-3.tsv",
    ]


@pytest.mark.parametrize("fail", range(7))
def test_an_interrupted_night_leaves_the_live_release(run_night, commands, capsys, fail):
    run_night("day-1")
    first = live_release()

    def interrupt(arguments):
        if len(commands.steps) == fail:
            raise KeyboardInterrupt
        return Commands.__call__(commands, arguments)

    Path("LOGS", "day-2.tsv").touch()
    commands.steps.clear()
    capsys.readouterr()
    assert main(["--log", "LOGS", "--corpus", "corpus.tsv", "--releases", "R"], interrupt) == 1
    assert capsys.readouterr().err == "interrupted; run the same command again.\n"
    assert live_release() == first
    assert run_night("day-3") == 0


def test_a_step_that_is_killed_has_exit_code_1(run_night, commands):
    commands.fail, commands.code = 1, -9
    assert run_night("day-1") == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"log_files": 3, "replaces": null}', '{"log_files": []}']
)
def test_a_damaged_release_file_is_refused(run_night, capsys, content):
    run_night("day-1")
    Path("R/live/release.json").write_text(content, "utf-8")
    assert run_night("day-2") == 1
    error = capsys.readouterr().err
    assert "release.json is missing or damaged (" in error
    assert error.count("\n") == 1


def test_releases_that_cannot_be_written_are_an_error(run_night, capsys):
    Path("R").write_text("a file", "utf-8")
    assert run_night("day-1") == 1
    assert capsys.readouterr().err.startswith("no release: ")


def test_one_command_rolls_back_to_the_release_before(run_night):
    run_night("day-1")
    first = live_release()
    run_night("day-2")
    assert main(["--releases", "R", "--rollback"]) == 0
    assert live_release() == first
    # The next release replaces the one that is live, not the one that was rolled back.
    run_night("day-3")
    assert main(["--releases", "R", "--rollback"]) == 0
    assert live_release() == first


def test_without_an_earlier_release_a_rollback_is_an_error(run_night, capsys):
    run_night("day-1")
    assert main(["--releases", "R", "--rollback"]) == 1
    assert "has no release before" in capsys.readouterr().err


def test_the_last_releases_are_kept(run_night):
    names = []
    for day in range(5):
        run_night(f"day-{day}", "--keep", "2")
        names.append(live_release())
    assert sorted(name for name in os.listdir("R") if name.startswith("2")) == names[-2:]


def test_a_night_without_new_clicks_is_an_error(run_night, commands, capsys):
    run_night("day-1")
    assert run_night() == 1
    assert commands.steps == []
    assert "LOGS has no file of clicks that" in capsys.readouterr().err


def test_two_releases_at_once_are_refused(run_night, commands, capsys):
    run_night("day-1")
    with FileLock("R/.lock"):
        assert run_night("day-2") == 1
    assert commands.steps == []
    assert "another process is releasing in R" in capsys.readouterr().err


def test_the_version_of_an_export_has_the_date_of_its_release(run_night):
    run_night("day-1", "--format", "export")
    assert os.listdir("R/live/export/maxsim") == [live_release().replace("-", "")]


@pytest.mark.slow
def test_two_days_of_a_log_make_two_releases_that_find_titles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = click_log(400)
    titles = sorted({click.title for click in log})
    rows = [f"{n}\t{title}" for n, title in enumerate(titles)]
    Path("corpus.tsv").write_text("\n".join(["doc_id\ttitle", *rows, ""]), "utf-8")
    Path("LOGS").mkdir()
    for day in (1, 2):
        clicks = log[(day - 1) * 200 : day * 200]
        rows = [f"{query}\t{title}\t{day * 1000 + n}" for n, (query, title, _) in enumerate(clicks)]
        text = "\n".join(["query\ttitle\ttimestamp", *rows, ""])
        Path("LOGS", f"2026-11-0{day}.tsv").write_text(text, "utf-8")
        flags = "--log LOGS --corpus corpus.tsv --releases R --min-queries 10"
        train_flags = "--set training.epochs=2 --set training.refit=false"
        assert main([*flags.split(), "--train-flags", train_flags], run_dssm) == 0
    content = json.loads(Path("R/live/release.json").read_text("utf-8"))
    assert content["log_files"] == ["2026-11-01.tsv", "2026-11-02.tsv"]
    assert "not worse" in Path("R/live/gate/gate.md").read_text("utf-8")
    hits = open_index(Path("R/live/index")).search(titles[0])
    assert titles[0] in [hit.title for hit in hits.rankings["semantic"]]
    assert main(["--releases", "R", "--rollback"]) == 0
    assert live_release() == content["replaces"]
