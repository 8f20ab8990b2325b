"""The models and versions that are loaded from a directory."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from dssm_tf.server.models import open_models


@pytest.mark.long
@pytest.mark.parametrize("kind", ["exports", "compacts"])
def test_a_model_can_be_loaded_from_each_level_of_its_directory(request, kind):
    fixture = request.getfixturevalue(kind)
    base = fixture / "pets" if kind == "exports" else fixture[0].parent
    for path, version in ((base.parent, 2), (base, 2), (base / "1", 1)):
        (model,) = open_models(path)
        assert (model.name, model.version) == ("pets", version)


def test_a_run_can_be_served_without_export(run):
    (model,) = open_models(run)
    assert (model.name, model.version) == ("run", 1)


def test_the_version_with_the_highest_number_is_served(compact, tmp_path):
    for number in (9, 10):
        shutil.copytree(compact, tmp_path / str(number))
    for other in (".11.incomplete", "notes"):
        (tmp_path / other).mkdir()
    (model,) = open_models(tmp_path)
    assert model.version == 10


def test_a_compact_model_is_served_without_tensorflow(checkout, compact):
    code = """
import sys
from dssm_tf.server.server import Server
from dssm_tf.server.models import open_models
from pathlib import Path
from serving.client import Client
with Server(open_models(Path(sys.argv[1])), port=0, rest_port=0) as server:
    with Client(server.grpc_address, "pets") as client:
        assert client.score("fox", ["red fox", "owl"]).shape == (2,)
sys.exit(sorted({"tensorflow", "keras", "apache_beam", "pyarrow"} & set(sys.modules)) or 0)
"""
    process = subprocess.run(
        [sys.executable, "-c", code, str(compact.parent)],
        cwd=checkout, capture_output=True, text=True,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, "")
