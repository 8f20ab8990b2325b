"""A click log, a run on it in this process, and processes for further runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clicks import Data, click_log, write_data
from tests.training.processes import TrainingProcesses


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="session")
def data(folder) -> Data:
    return write_data(folder / "data", click_log())


@pytest.fixture(scope="session")
def processes(folder) -> TrainingProcesses:
    (folder / "processes").mkdir()
    with TrainingProcesses(folder / "processes") as processes:
        yield processes


@pytest.fixture(scope="session")
def run(folder, data):
    """An uninterrupted run in this process, and its result."""
    # Imported here, because the parent process of pytest-xdist does not need TensorFlow.
    from tests.training.configuration import trained

    return folder / "run", trained(data, folder / "run")
