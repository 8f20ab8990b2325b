"""Two versions of an untrained model, and a server of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from dssm_tf.export.compact import export_compact
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.server.limits import Limits
from dssm_tf.server.models import open_models
from dssm_tf.server.server import Server
from tests.clicks import Click, write_data
from tests.runs import finished_run
from tests.serving.conftest import ranker  # noqa: F401

LOG = [Click("fox", "Red Fox", 5), Click("owl", "green owl", 2), Click("bear", "black bear", 1)]
CONFIG = {"tower": {"name": "dssm", "widths": [8, 4]}, "shared_towers": True}
QUERIES = ["fox", "an owl", ""]
TITLES = ["red fox", "Green Owl!", "never seen"]


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    data = write_data(folder / "data", LOG, validation=(), negatives=1)
    return finished_run(folder / "run", data, CONFIG)


@pytest.fixture(scope="session")
def second_run(run) -> Path:
    """A run with other weights."""
    data = write_data(run.parent / "data2", LOG, validation=(), negatives=1)
    return finished_run(run.parent / "run2", data, CONFIG, seed=1)


@pytest.fixture(scope="session")
def exports(run, second_run) -> Path:
    """SavedModels `pets/1` and `pets/2` of the two runs."""
    out = run.parent / "export"
    for directory in (run, second_run):
        export_saved_model(directory, out, "pets")
    return out


@pytest.fixture(scope="session")
def signatures(exports):
    """The signatures of version 2 of the SavedModel."""
    return tf.saved_model.load(str(exports / "pets" / "2")).signatures


@pytest.fixture(scope="session")
def compacts(run, second_run) -> list[Path]:
    """Compact models of the two runs: the directories of the versions."""
    return [export_compact(directory, run.parent / "compact", "pets")
            for directory in (run, second_run)]  # fmt: skip


@pytest.fixture(scope="session")
def compact(compacts) -> Path:
    """The compact model of version 1."""
    return compacts[0]


@pytest.fixture(scope="module")
def server(exports) -> Iterator[Server]:
    """A server of version 2 of `pets`, limited to 8 texts and 4,000 bytes."""
    limits = Limits(texts=8, message_bytes=4000)
    with Server(open_models(exports), port=0, rest_port=0, limits=limits) as server:
        yield server
