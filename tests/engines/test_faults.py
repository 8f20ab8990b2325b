"""Failures on an engine: the output is the same, or there is an error of one line and no output."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dssm_tf import __version__
from tests.engines import engines
from tests.engines.engines import (
    CHECKOUT,
    OPTIONS,
    file_hashes,
    flink,
    job_api,
    skip_if_missing,
    spark,
)


def error_line(
    output: Path, *arguments: object, module: str = "preprocess", kill: Callable = lambda: None
) -> str:
    """Runs a pipeline that fails; returns its error line and checks that there is no output."""
    process = engines.start(f"pipelines.{module}", ["--output", output, *arguments])
    kill()
    code, printed = engines.wait(process)
    lines = [line for line in printed.splitlines() if " preprocess: 00:" not in line]
    assert code == 1, printed
    assert len(lines) == 1, printed
    assert not output.exists()
    return lines[0]


@pytest.fixture
def other_version(tmp_path) -> Path:
    """A checkout of another version of the package."""
    for package in ("dssm_tf", "pipelines"):
        shutil.copytree(CHECKOUT / package, tmp_path / "other" / package)
    init = tmp_path / "other" / "dssm_tf" / "__init__.py"
    init.write_text(init.read_text("utf-8").replace(f'"{__version__}"', '"0.0.9"'), "utf-8")
    return tmp_path / "other"


@pytest.mark.long
@pytest.mark.parametrize("module", ["preprocess", pytest.param("embed", marks=pytest.mark.engines)])
def test_a_worker_of_another_version_is_named_in_the_error(
    module, log, corpus, model, other_version, tmp_path
):
    arguments = {"preprocess": ["--input", log], "embed": ["--input", corpus, "--model", model]}
    with engines.running(job_api, tmp_path) as engine:
        flags = [*engine.flags, *engines.worker_pool(engine, other_version)]
        line = error_line(tmp_path / "out", *arguments[module], *flags, module=module)
    assert f"has dssm-tf 0.0.9, but the launcher has {__version__}; install the same" in line
    assert f"Worker {os.uname().nodename}" in line


@pytest.mark.long
def test_a_missing_engine_is_an_error_of_one_line(log, tmp_path):
    flags = ["--runner=PortableRunner", "--job_endpoint=localhost:9", "--job_server_timeout=2"]
    line = error_line(tmp_path / "out", "--input", log, *flags)
    assert "the job server localhost:9 does not answer" in line


@pytest.mark.long
def test_a_job_server_that_is_killed_is_an_error_of_one_line(log, tmp_path):
    with engines.running(job_api, tmp_path) as engine:

        def kill() -> None:
            assert engines.wait_until(120, lambda: list(tmp_path.glob(".out.incomplete/parts/*")))
            engine.processes["job_service"].send_signal(signal.SIGKILL)

        line = error_line(tmp_path / "out", "--input", log, *engine.flags, kill=kill)
    assert "the job server localhost:" in line


@pytest.mark.engines
def test_a_jar_of_another_engine_is_an_error_of_one_line(log, tmp_path):
    """FlinkRunner starts the job server from the jar, here from the jar of Spark's job server."""
    skip_if_missing(flink)
    jar = next((CHECKOUT / "build/engines/spark").glob("beam-runners-spark-*.jar"))
    flags = ["--runner=FlinkRunner", f"--flink_job_server_jar={jar}", "--flink_master=localhost:9"]
    line = error_line(tmp_path / "out", "--input", log, *flags)
    assert "--runner FlinkRunner: " in line


@pytest.fixture(scope="module", params=[flink, spark], ids=["flink", "spark"])
def started(request, tmp_path_factory):
    skip_if_missing(request.param)
    start = request.param
    if start is flink:  # a new TaskManager may take a minute to start on a busy machine
        start = partial(flink, restarts=120)
    with engines.running(start, tmp_path_factory.mktemp("faults")) as engine:
        yield engine


@pytest.mark.engines
@pytest.mark.parametrize("killed", ["a Python worker", "a host"])
def test_a_job_writes_the_same_bytes_after_a_worker_or_host_is_killed(
    started, killed, log, local_preprocessed, tmp_path
):
    output = tmp_path / "data"
    arguments = ["--input", log, "--output", output, *OPTIONS, *started.flags]
    job = engines.start("pipelines.preprocess", arguments)
    assert engines.wait_until(400, lambda: list(tmp_path.glob(".data.incomplete/parts/*")))
    processes = [process.pid for name, process in started.processes.items() if name[-1].isdigit()]
    if killed != "a host":
        assert engines.wait_until(60, lambda: engines.children(processes, "boot.py"))
        processes = engines.children(processes, "boot.py")
    os.kill(processes[0], signal.SIGKILL)
    if killed == "a host" and "task_manager_0" in started.processes:
        engines.task_manager(started, 2)  # restarted, as by Kubernetes
    engines.succeeds(job)
    assert file_hashes(output) == local_preprocessed


@pytest.mark.engines
def test_a_full_disk_is_an_error_of_one_line_without_output(log, tmp_path):
    skip_if_missing(flink)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12k", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        with engines.running(flink, tmp_path) as engine:
            line = error_line(disk / "data", "--input", log, *OPTIONS, *engine.flags)
        assert "No space left on device" in line
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)
