"""One model as a run and as an export."""

from __future__ import annotations

from pathlib import Path

import pytest

import dssm_tf
from dssm_tf.export.saved_model import export
from tests.clicks import Data, click_log, write_data
from tests.runs import finished_run

DSSM = {"tower": {"name": "dssm", "widths": [8, 6]}}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="session")
def data(folder) -> Data:
    return write_data(folder / "data", click_log())


@pytest.fixture(scope="session")
def run(folder, data) -> Path:
    return finished_run(folder / "run", data, DSSM, prior_weight=0.25)


@pytest.fixture(scope="session")
def exported(folder, run) -> Path:
    return export(run, folder / "models", "fox").parent


@pytest.fixture(scope="session")
def models(run, exported) -> dict[str, dssm_tf.TrainedModel]:
    """The same model by kind."""
    return {"run": dssm_tf.load(run), "export": dssm_tf.load(exported)}
