"""Local engine processes, and the flags that run a pipeline on them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
INSTALLED = CHECKOUT / "build" / "engines"
"""Written by `make test-engines`."""
FLINK, PRISM = INSTALLED / "flink", INSTALLED / "bin" / "prism"
SPARK, PYSPARK = INSTALLED / "spark", INSTALLED / "pyspark" / "pyspark"
JAVA_PACKAGES = (
    "util", "lang", "lang.invoke", "net", "nio", "io", "util.concurrent", "util.concurrent.atomic",
)  # fmt: skip
"""Packages of java.base that Flink and Spark access by reflection."""
START_SECONDS = 400.0
"""The longest time until a process is ready; a JVM takes minutes to start on a busy machine."""
OPTIONS = ("--negatives-from", "both", "--shards", "4")
"""Flags of preprocess in all tests."""
FLINK_CONFIG = """\
jobmanager.rpc.address: localhost
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: localhost
jobmanager.memory.process.size: 1024m
rest.address: localhost
rest.bind-address: localhost
rest.port: {rest}
taskmanager.host: localhost
taskmanager.bind-host: localhost
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1
taskmanager.memory.task.heap.size: 384m
taskmanager.memory.task.off-heap.size: 768m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.network.min: 256m
taskmanager.memory.network.max: 256m
taskmanager.memory.managed.size: 128m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
parallelism.default: {task_managers}
io.tmp.dirs: {folder}
heartbeat.interval: 1000
heartbeat.timeout: 60000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: {restarts}
restart-strategy.fixed-delay.delay: 1 s
"""


def free_port() -> int:
    """A free port."""
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        return bound_socket.getsockname()[1]


class Engine:
    """The processes of an engine, each with a log.

    Attributes:
        folder: directory for logs and settings.
        processes: the processes, by name.
        flags: flags that run a pipeline on the engine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.flags: list[str] = []

    def start(
        self, name: str, command: Sequence[object], ready: Callable[[], object] | None = None
    ) -> None:
        """Starts a process and waits until it is ready.

        Raises:
            TimeoutError: the process is not ready in time. The message has the end of its log.
        """
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            words = [str(word) for word in command]
            environment = os.environ | {"SPARK_HOME": str(PYSPARK)}
            environment |= {"SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": "127.0.0.1"}
            self.processes[name] = subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        if ready:
            self.wait(name, ready)

    def wait(self, name: str, ready: Callable[[], object]) -> None:
        """Waits until a process is ready.

        Raises:
            TimeoutError: see `start`.
        """
        process, log = self.processes[name], self.folder / f"{name}.log"
        wait_until(START_SECONDS, lambda: process.poll() is not None or ready())
        if process.poll() is not None or not wait_until(5, ready):
            raise TimeoutError(f"{name}:\n{log.read_text('utf-8', 'replace')[-3000:]}")

    def java(
        self,
        name: str,
        jars: Sequence[Path],
        command: Sequence[object],
        ready: Callable[[], object] | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Starts a Java process."""
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in JAVA_PACKAGES]
        opened.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        memory = ["-Xmx512m", "-XX:MaxDirectMemorySize=1200m"]
        settings = [f"-D{key}={value}" for key, value in (properties or {}).items()]
        path = ":".join(f"{folder}/*" for folder in jars)
        self.start(name, ["java", *opened, *memory, *settings, "-cp", path, *command], ready)

    def job_server(self, runner: str, master: str, jars: Sequence[Path], **properties: Any) -> None:
        """Starts Beam's job server of an engine; it starts workers as processes."""
        job, artifacts, expansion = (free_port() for _ in range(3))
        command = (
            f"org.apache.beam.runners.{runner.lower()}.{runner}JobServerDriver {master} --job-host "
            f"localhost --job-port {job} --artifact-port {artifacts} --expansion-port {expansion}"
        )
        self.java("job_server", jars, command.split(), lambda: is_listening(job), properties)
        self.flags = [*portable(job, "PROCESS"), worker(self.folder)]

    def stop(self) -> None:
        """Terminates all processes, the last one first; kills those that take over a minute."""
        for process in reversed(self.processes.values()):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait()


def wait_until(seconds: float, ready: Callable[[], object]) -> bool:
    """Waits until `ready` returns a true value; returns whether it did in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            if ready():
                return True
        time.sleep(0.2)
    return False


def is_listening(port: int) -> bool:
    """Whether a local port accepts connections."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def has_value(port: int, path: str, key: str, value: object) -> bool:
    """Whether the JSON of an engine's web page has this value for the key."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as response:
        return bool(json.load(response)[key] == value)


def portable(port: int, environment: str) -> list[str]:
    """The flags for a local job service."""
    flags = ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]
    return [*flags, f"--environment_type={environment}"]


def worker(folder: Path, checkout: Path = CHECKOUT, *, before: str = "") -> str:
    """The flag that starts workers as processes of this Python, instead of containers.

    Args:
        folder: directory for the start script.
        checkout: checkout whose packages the worker imports.
        before: a shell command that runs first.
    """
    boot = folder / f"boot-{checkout.name}"
    boot.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={checkout}\n{before}\n"
        f'exec {sys.executable} {CHECKOUT / "tests/engines/boot.py"} "$@"\n',
        "utf-8",
    )
    boot.chmod(0o755)
    return f"--environment_config={json.dumps({'command': str(boot)})}"


def job_api(engine: Engine) -> None:
    """Starts Beam's own job service, which runs jobs in its process, without an engine."""
    port = free_port()
    service = "apache_beam.runners.portability.local_job_service_main"
    command = [sys.executable, "-m", service, "--port", port]
    engine.start("job_service", command, lambda: is_listening(port))
    engine.flags = portable(port, "LOOPBACK")


def flink(
    engine: Engine, task_managers: int = 2, *, pinned: bool = False, restarts: int = 3
) -> None:
    """Starts a Flink cluster with memory limits and one slot per TaskManager, and a job server.

    Args:
        engine: where its processes run.
        task_managers: number of TaskManagers.
        pinned: whether each TaskManager has a processor of its own.
        restarts: how often a failed job is restarted, after one second each. A restart fails with
            "Connection refused" while a killed TaskManager is not yet known to be lost. It is known
            after two failed heartbeats, so that the long `heartbeat.timeout` matters only for
            running TaskManagers, which answer late on a busy machine.
    """
    rest, rpc = free_port(), free_port()
    settings = FLINK_CONFIG.format(
        rest=rest,
        rpc=rpc,
        task_managers=task_managers,
        restarts=restarts,
        folder=engine.folder,  # a killed TaskManager leaves files of 0.1 GB
    )
    (engine.folder / "config.yaml").write_text(settings, "utf-8")
    entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    command = [entry, "--configDir", engine.folder]
    engine.java("job_manager", [FLINK], command, lambda: is_listening(rest))
    for index in range(task_managers):
        task_manager(engine, index)
        if pinned:
            os.sched_setaffinity(engine.processes[f"task_manager_{index}"].pid, [index])
    for name in [name for name in engine.processes if name.startswith("task_manager_")]:
        engine.wait(name, lambda: has_value(rest, "overview", "taskmanagers", task_managers))
    engine.job_server("Flink", f"--flink-master=localhost:{rest}", [FLINK])
    engine.flags.append(f"--parallelism={task_managers}")


def task_manager(engine: Engine, index: int) -> None:
    """Starts another TaskManager of a Flink cluster."""
    runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    resource_id = ["-D", f"taskmanager.resource-id=manager-{index}"]
    command = [runner, "--configDir", engine.folder, *resource_id]
    engine.java(f"task_manager_{index}", [FLINK], command)


def spark(engine: Engine, workers: int = 2) -> None:
    """Starts a Spark master, workers with one core each, and Beam's job server."""
    master, web = free_port(), free_port()
    jars, deploy = [PYSPARK / "jars"], "org.apache.spark.deploy"
    command = f"{deploy}.master.Master --host localhost --port {master} --webui-port {web}"
    engine.java("master", jars, command.split())
    for index in range(workers):
        command = (
            f"{deploy}.worker.Worker spark://localhost:{master} --host localhost "
            "--webui-port 0 --cores 1 --memory 1g --work-dir"
        )
        work = engine.folder / f"work-{index}"
        engine.java(f"worker_{index}", jars, [*command.split(), work])
    if not wait_until(START_SECONDS, lambda: has_value(web, "json", "aliveworkers", workers)):
        raise TimeoutError(f"Spark's workers; see {engine.folder}")
    properties = {
        "spark.executor.memory": "512m",
        "spark.executor.extraClassPath": f"{SPARK}/*",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
    }
    url = f"--spark-master-url=spark://localhost:{master}"
    engine.job_server("Spark", url, [SPARK, *jars], **properties)


def prism(engine: Engine) -> None:
    """Starts Beam's Prism, a runner written in Go."""
    port, web = free_port(), free_port()
    command = [PRISM, f"--job_port={port}", f"--web_port={web}"]
    engine.start("prism", command, lambda: is_listening(port))
    engine.flags = portable(port, "LOOPBACK")


INSTALLATIONS = {
    job_api: None,
    flink: (FLINK, "Java 11 or newer and Maven"),
    spark: (SPARK, "Java 11 or newer and Maven"),
    prism: (PRISM, "Go"),
}
"""Per engine, the path that `make test-engines` creates and the tools that it needs."""


def skip_if_missing(engine: Callable[[Engine], None]) -> None:
    """Skips a test if an engine is not installed."""
    if (installation := INSTALLATIONS[engine]) and not installation[0].exists():
        pytest.skip(f"run `make test-engines`, which needs {installation[1]}")


@contextmanager
def running(start_engine: Callable[[Engine], None], folder: Path) -> Iterator[Engine]:
    """Runs an engine until the end of the block."""
    engine = Engine(folder)
    try:
        start_engine(engine)
        yield engine
    finally:
        engine.stop()


def worker_pool(engine: Engine, checkout: Path = CHECKOUT) -> list[str]:
    """Starts a pool of workers from a checkout; returns the flags that use it."""
    port, pool = free_port(), "apache_beam.runners.worker.worker_pool_main"
    path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    command = ["env", f"--chdir={checkout}", f"PYTHONPATH={checkout}", path]
    command += [sys.executable, "-m", pool, f"--service_port={port}"]
    engine.start("worker_pool", command, lambda: is_listening(port))
    return ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]


def start(
    module: str, arguments: Sequence[object], prefix: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """Starts `python -m module` in a process; a prefix is put before the command line."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | environment,
    )  # fmt: skip


def wait(started: subprocess.Popen[str], seconds: float = 600) -> tuple[int, str]:
    """Waits for a process; returns its exit code and output."""
    with started:
        try:
            output, _ = started.communicate(timeout=seconds)
        finally:
            started.kill()
    return started.returncode, output


def children(processes: Sequence[int], command: str) -> list[int]:
    """The ids of descendants of some processes whose command line contains a text."""
    ids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in processes:
                ids += [int(folder.name)] * (command in (folder / "cmdline").read_text())
                ids += children([int(folder.name)], command)
    return ids


def file_hashes(output: Path) -> dict[str, str]:
    """The SHA-256 of every file in a directory, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.iterdir()}


def succeeds(started: subprocess.Popen[str]) -> str:
    """Waits for a process, which must exit with 0; returns its output."""
    code, output = wait(started)
    assert code == 0, output
    return output


def run_preprocess(log: Path, output: Path, *flags: str) -> dict[str, str]:
    """Runs preprocess; returns the hashes of its output files."""
    paths = ["--input", log, "--output", output]
    succeeds(start("pipelines.preprocess", [*paths, *OPTIONS, *flags]))
    return file_hashes(output)


def run_embed(model: Path, corpus: Path, output: Path, *flags: str) -> dict[str, str]:
    """Runs embed; returns the hashes of its output files."""
    paths = ["--model", model, "--input", corpus, "--output", output]
    assert "1,200 vectors of length 7" in succeeds(start("pipelines.embed", [*paths, *flags]))
    return file_hashes(output)
