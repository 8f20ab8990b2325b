"""Requests for tuning, and stand-ins for training, that the tests of `dssm tune` share."""

from __future__ import annotations

import json
from pathlib import Path

from dssm_tf.training import train as training
from dssm_tf.tuning.plan import Request
from dssm_tf.tuning.report import Tuning

EPOCHS = 2
CONFIG = {
    "tower": {"name": "dssm", "widths": [6]},
    "training": {"epochs": EPOCHS, "batch_size": 16, "xla": False, "refit": True},
}
GRID = ("loss.gamma=5,10", "optimizer.learning_rate=0.01,0.05")


def request(folder: Path, *grid: str, **options) -> Request:
    return Request(str(folder / "mine.yaml"), grid, **options)


def trials_of(out: Path) -> list[dict]:
    return json.loads((out / "trials.json").read_text("utf-8"))["trials"]


class Calls:
    """Stands in for `training.train`: counts the runs, and at one of them does what it is told."""

    def __init__(self, monkeypatch, at: int | None = None, do=None) -> None:
        self.directories: list[Path] = []
        real = training.train

        def train(config, data, out, *, quiet=False):
            self.directories.append(out)
            if len(self.directories) == at:
                do(config, data, out)
            return real(config, data, out, quiet=quiet)

        monkeypatch.setattr(training, "train", train)


def refuse_to_train(monkeypatch) -> Calls:
    def fail(*_):
        raise AssertionError("trained although nothing was to be done")

    return Calls(monkeypatch, at=1, do=fail)


class Killed(BaseException):
    """The process's end, which nothing may catch."""


def kill(*_) -> None:
    raise Killed


def measures(tuning: Tuning) -> list[tuple]:
    return [
        (row.outcome.status, row.outcome.validation, row.outcome.best_epoch) for row in tuning.rows
    ]
