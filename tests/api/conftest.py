"""The same model as a run, as a SavedModel and as a compact model."""

from __future__ import annotations

from pathlib import Path

import pytest

import dssm_tf
from dssm_tf.export.compact import export_compact
from dssm_tf.export.saved_model import export_saved_model
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
    return export_saved_model(run, folder / "models", "fox").parent


@pytest.fixture(scope="session")
def compact(folder, run) -> Path:
    return export_compact(run, folder / "compact", "fox").parent


@pytest.fixture(scope="session")
def models(run, exported, compact) -> dict[str, dssm_tf.Model]:
    """The same model, loaded from a directory of each kind."""
    paths = {"run": run, "export": exported, "compact": compact}
    return {kind: dssm_tf.load(path) for kind, path in paths.items()}
