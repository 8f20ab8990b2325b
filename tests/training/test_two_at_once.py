"""Two trainings or two tunings into one directory, each a process: one is refused, none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.clicks import click_log, write_data
from tests.conftest import CHECKOUT
from tests.training.configuration import config
from tests.training.processes import training_processes

LONG = config(training__epochs=15, training__patience=15, training__batch_size=8)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "data", click_log(30))


def wait_for(path: Path) -> None:
    end = time.monotonic() + 600
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)


def test_a_second_training_is_refused_and_the_first_ends_well(data, tmp_path):
    with training_processes(tmp_path) as processes:
        first = processes.start(LONG, data.path, tmp_path / "run")
        wait_for(tmp_path / "run" / "config.yaml")
        second = processes.train(LONG, data.path, tmp_path / "run")
        assert second.error == f"{tmp_path / 'run'} is being written by another process."
        ended = first.wait()
        assert (ended.error, ended.result["epochs"]) == (None, 15)
        # Nobody writes it any longer: it is found finished.
        assert processes.train(LONG, data.path, tmp_path / "run").result["epochs"] == 15
    assert not (tmp_path / ".run.writing").exists()


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_training_whose_directory_is_taken_away_does_not_end_well(data, tmp_path, replaced):
    with training_processes(tmp_path) as processes:
        running = processes.start(LONG, data.path, tmp_path / "run")
        wait_for(tmp_path / "run" / "spec.json")
        if replaced:
            (tmp_path / "run" / "config.yaml").write_text("tower: {name: lstm}", "utf-8")
        else:
            (tmp_path / "run").rename(tmp_path / "away")
        ended = None
        with suppress(RuntimeError):  # a checkpoint could not be written
            ended = running.wait()
    if ended is not None:
        assert ended.result is None
        assert "was removed or replaced while it was trained" in ended.error
    assert not (tmp_path / "run" / "SHA256SUMS").exists()


@pytest.mark.serving
def test_of_two_tunings_at_once_one_is_refused(data, tmp_path):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(dict(LONG)), "utf-8")
    command = [
        sys.executable, "-m", "dssm_tf.cli", "tune", "--config", str(tmp_path / "mine.yaml"),
        "--data", str(data.path), "--out", str(tmp_path / "out"), "--grid", "loss.gamma=5,10",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, cwd=CHECKOUT, env=environment, **options) for _ in range(2)]
    said = [one.communicate(timeout=1200)[1] for one in both]
    codes = [one.returncode for one in both]
    assert sorted(codes) == [0, 1], said
    lost = said[codes.index(1)].splitlines()[-1]
    assert lost == f"dssm tune: {tmp_path / 'out'} is being written by another process."
    assert (tmp_path / "out" / "best.yaml").exists()
