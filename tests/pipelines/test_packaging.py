"""The distribution for workers (`--setup_file` or image) works in an empty environment."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import venv

import pytest

from dssm_tf import __version__

WORK = """
import json, sys
from apache_beam.testing.util import assert_that
import apache_beam as beam
import pipelines
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import graph
from pipelines.options import PreprocessOptions
from pipelines.sources import find_files, plan
from pipelines.shards import PipelineContext
from pipelines.manifest import OutputManifest

log, output = sys.argv[1:]
files = find_files([log]).files
pipeline = beam.Pipeline(runner=FnApiRunner())
options = PreprocessOptions(input=(log,), output=output)
pieces, context = plan(files, options.layout), PipelineContext(options, 0, output)
graph.build(pipeline, pieces, context, [], Vocabulary((), options.rules))
pipeline.run().wait_until_finish()
loaded = [name for name in ("tensorflow", "keras", "rich") if name in sys.modules]
sys.stdout.write(json.dumps({"from": pipelines.__file__, "loaded": loaded,
    "counts": OutputManifest.load(output).counts}))
"""


@pytest.mark.slow
def test_a_workers_distribution_runs_the_pipelines_steps_without_tensorflow(
    checkout, tmp_path, topics
):
    # As Beam builds it: `python setup.py sdist`.
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)],
        cwd=checkout / "worker", check=True, capture_output=True,
    )  # fmt: skip
    (archive,) = tmp_path.glob("*.tar.gz")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(checkout / "constraints.txt"), str(archive)], check=True)
    installed = {path.name.partition("-")[0] for path in environment.glob("lib/*/site-packages/*")}
    assert {"apache_beam", "dssm_tf_worker"} <= installed
    assert not {"tensorflow", "keras", "scipy"} & installed
    assert archive.name == f"dssm_tf_worker-{__version__}.tar.gz"
    log, output = tmp_path / "log.tsv", tmp_path / "data"
    log.write_text(topics, "utf-8")
    (output / "parts").mkdir(parents=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [str(python), "-c", WORK, str(log), str(output)],
        cwd=tmp_path, env=clean, check=True, capture_output=True, text=True,
    )  # fmt: skip
    result = json.loads(process.stdout)
    assert str(environment) in result["from"]
    assert not {"tensorflow", "keras"} & set(result["loaded"])
    counts = result["counts"]
    assert counts["rows: read"] == 120
    assert counts["train: pairs"] + counts["validation: pairs"] == 120


def test_requirements_of_workers_are_a_subset_of_those_of_the_package(checkout, monkeypatch):
    setups = {}
    monkeypatch.setattr("setuptools.setup", lambda **setup: setups.update({setup["name"]: setup}))
    for file in ("setup.py", "worker/setup.py"):
        runpy.run_path(str(checkout / file))
    package, worker = setups["dssm-tf"], setups["dssm-tf-worker"]
    assert set(worker["install_requires"]) < set(package["install_requires"])
    assert set(worker["extras_require"]["model"]) < set(package["install_requires"])
    assert worker["version"] == package["version"] == __version__
