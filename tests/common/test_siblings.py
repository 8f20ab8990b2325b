"""Folders called `pipelines` and `serving` do not shadow the packages beside `dssm_tf`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOG = "query\ttitle\nred fox\tRed Fox\nred fox\tRed Fox\nowl\tGreen Owl\nowl\tGreen Owl\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with packages of the same names, which cannot be imported."""
    for name in ("pipelines", "serving"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the wrong package')\n")
    (tmp_path / "clicks.tsv").write_text(LOG, "utf-8")
    return tmp_path


def run(folder, checkout, *command):
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("-m", "dssm_tf.cli", "preprocess", "--input", "clicks.tsv", "--output", "OUT",
         "--validation-fraction", "0"),
        ("-c", "import dssm_tf; dssm_tf.preprocess"),
        ("-c", "import dssm_tf.server.service"),
        ("-c", "import dssm_tf.commands.serve"),
        ("-c", "from dssm_tf.benchmark import prepare"),
    ],
    ids=["preprocess", "python", "server", "serve", "benchmark"],
)  # fmt: skip
def test_folders_called_pipelines_and_serving_do_not_shadow_the_packages(folder, checkout, command):
    process = run(folder, checkout, *command)
    assert process.returncode == 0, process.stderr


def test_the_error_names_the_directory_of_another_package_that_was_imported_before(
    tmp_path, checkout
):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("")
    process = run(tmp_path, checkout, "-c", "import pipelines, dssm_tf; dssm_tf.preprocess")
    assert "UserError: a package called pipelines is imported from" in process.stderr
    assert str(tmp_path) in process.stderr
