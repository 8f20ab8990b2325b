"""A folder to tune in, and a finished tuning."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dssm_tf.tuning.plan import make_plan
from dssm_tf.tuning.report import Tuning
from dssm_tf.tuning.tune import tune
from tests.clicks import click_log, write_data
from tests.tuning.requests import CONFIG, GRID, request


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder with a configuration and a directory of records."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    write_data(folder / "data", click_log(30))
    return folder


@pytest.fixture(scope="session")
def tuned(folder) -> Tuning:
    """A grid of four settings, tuned without interruption."""
    return tune(make_plan(request(folder, *GRID)), folder / "data", folder / "tuned")
