"""A click log, a run on it in this process, and a process to train others in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.config import parse_config
from dssm_tf.training.train import train
from tests.clicks import Data, click_log, write_data
from tests.training.configuration import CONFIG
from tests.training.processes import TrainingProcesses, training_processes


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="session")
def data(folder) -> Data:
    return write_data(folder / "data", click_log())


@pytest.fixture(scope="session")
def processes(folder) -> TrainingProcesses:
    (folder / "processes").mkdir()
    with training_processes(folder / "processes") as found:
        yield found


@pytest.fixture(scope="session")
def run(folder, data):
    """An uninterrupted run in this process, and its result."""
    result = train(parse_config(CONFIG), data.path, folder / "run", quiet=True)
    return folder / "run", result
