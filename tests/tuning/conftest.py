"""A folder with a configuration and data for tuning."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.clicks import click_log, write_data

CONFIG = {
    "tower": {"name": "dssm", "widths": [6]},
    "training": {"epochs": 2, "batch_size": 16, "xla": False, "refit": True},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder with a configuration and preprocessed data."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    write_data(folder / "data", click_log(30))
    return folder
