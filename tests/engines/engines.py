"""Engines as processes of this machine, and the flags that send a pipeline there."""

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
"""By `make test-engines`."""
FLINK, PRISM = INSTALLED / "flink", INSTALLED / "bin" / "prism"
SPARK, PYSPARK = INSTALLED / "spark", INSTALLED / "pyspark" / "pyspark"
OPENED = (
    "util", "lang", "lang.invoke", "net", "nio", "io", "util.concurrent", "util.concurrent.atomic",
)  # fmt: skip
"""Packages of java.base that Flink and Spark read."""
OPTIONS = ("--negatives-from", "both", "--shards", "4")
"""Of preprocess in all tests."""
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
heartbeat.interval: 1000
heartbeat.timeout: 10000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 3
restart-strategy.fixed-delay.delay: 1 s
"""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


class Engine:
    """Processes that end with the block, each with a log.

    Attributes:
        folder: for logs and settings.
        parts: the processes, by name.
        flags: what sends a pipeline there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self.flags: list[str] = []

    def start(
        self, name: str, command: Sequence[object], ready: Callable[[], object] | None = None
    ) -> None:
        """Starts a part, and waits until it is ready.

        Raises:
            TimeoutError: with the end of its log.
        """
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            words = [str(word) for word in command]
            environment = os.environ | {"SPARK_HOME": str(PYSPARK)}
            environment |= {"SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": "127.0.0.1"}
            part = self.parts[name] = subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        if ready and not (within(120, lambda: part.poll() or ready()) and part.poll() is None):
            raise TimeoutError(f"{name}:\n{log.read_text('utf-8', 'replace')[-3000:]}")

    def java(
        self,
        name: str,
        jars: Sequence[Path],
        command: Sequence[object],
        ready: Callable[[], object] | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Starts a part that runs on Java."""
        opened = (f"--add-opens=java.base/java.{one}=ALL-UNNAMED" for one in OPENED)
        opened = [*opened, "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
        memory = ["-Xmx512m", "-XX:MaxDirectMemorySize=1200m"]
        given = [f"-D{key}={value}" for key, value in (properties or {}).items()]
        path = ":".join(f"{one}/*" for one in jars)
        self.start(name, ["java", *opened, *memory, *given, "-cp", path, *command], ready)

    def job_server(self, runner: str, master: str, jars: Sequence[Path], **properties: Any) -> None:
        """Starts Beam's job server of an engine, which starts a worker as a process."""
        job, artifacts, expansion = (free_port() for _ in range(3))
        command = (
            f"org.apache.beam.runners.{runner.lower()}.{runner}JobServerDriver {master} --job-host "
            f"localhost --job-port {job} --artifact-port {artifacts} --expansion-port {expansion}"
        )
        self.java("job_server", jars, command.split(), lambda: listens(job), properties)
        self.flags = [*portable(job, "PROCESS"), worker(self.folder)]

    def stop(self) -> None:
        """Ends all parts, the last first."""
        for part in reversed(self.parts.values()):
            part.terminate()
            part.wait(60)


def within(seconds: float, ready: Callable[[], object]) -> bool:
    """Waits until something is so; returns whether it became so in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            if ready():
                return True
        time.sleep(0.2)
    return False


def listens(port: int) -> bool:
    """Whether somebody answers at a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def says(port: int, path: str, key: str, value: object) -> bool:
    """Whether an engine's web page has a value for a key."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
        return bool(json.load(answer)[key] == value)


def portable(port: int, environment: str) -> list[str]:
    """The flags of a job that goes to a job service of this machine."""
    flags = ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]
    return [*flags, f"--environment_type={environment}"]


def worker(folder: Path, checkout: Path = CHECKOUT, *, before: str = "") -> str:
    """The flag that names what a container would start: a worker of this Python and a checkout.

    Args:
        folder: for the program that is started.
        checkout: whose packages it imports.
        before: a line of shell that is run before.
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
    """Beam's own job service, which runs jobs in its process: the job API without an engine."""
    port = free_port()
    service = "apache_beam.runners.portability.local_job_service_main"
    command = [sys.executable, "-m", service, "--port", port]
    engine.start("job_service", command, lambda: listens(port))
    engine.flags = portable(port, "LOOPBACK")


def flink(engine: Engine, task_managers: int = 2, *, pinned: bool = False) -> None:
    """A Flink cluster with memory limits and one slot a TaskManager, and Beam's job server."""
    rest, rpc = free_port(), free_port()
    settings = FLINK_CONFIG.format(rest=rest, rpc=rpc, task_managers=task_managers)
    (engine.folder / "config.yaml").write_text(settings, "utf-8")
    entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    command = [entry, "--configDir", engine.folder]
    engine.java("job_manager", [FLINK], command, lambda: listens(rest))
    for number in range(task_managers):
        task_manager(engine, number)
        if pinned:
            os.sched_setaffinity(engine.parts[f"task_manager_{number}"].pid, [number])
    if not within(120, lambda: says(rest, "overview", "taskmanagers", task_managers)):
        raise TimeoutError(f"Flink's TaskManagers; see {engine.folder}")
    engine.job_server("Flink", f"--flink-master=localhost:{rest}", [FLINK])
    engine.flags.append(f"--parallelism={task_managers}")


def task_manager(engine: Engine, number: int) -> None:
    """One more TaskManager of a Flink cluster."""
    runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    own = ["-D", f"taskmanager.resource-id=manager-{number}"]
    command = [runner, "--configDir", engine.folder, *own]
    engine.java(f"task_manager_{number}", [FLINK], command)


def spark(engine: Engine, workers: int = 2) -> None:
    """A Spark master, workers with one core each, and Beam's job server."""
    master, web = free_port(), free_port()
    jars, deploy = [PYSPARK / "jars"], "org.apache.spark.deploy"
    command = f"{deploy}.master.Master --host localhost --port {master} --webui-port {web}"
    engine.java("master", jars, command.split())
    for number in range(workers):
        command = (
            f"{deploy}.worker.Worker spark://localhost:{master} --host localhost "
            "--webui-port 0 --cores 1 --memory 1g --work-dir"
        )
        work = engine.folder / f"work-{number}"
        engine.java(f"worker_{number}", jars, [*command.split(), work])
    if not within(120, lambda: says(web, "json", "aliveworkers", workers)):
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
    """Beam's Prism, a runner written in Go."""
    port, web = free_port(), free_port()
    command = [PRISM, f"--job_port={port}", f"--web_port={web}"]
    engine.start("prism", command, lambda: listens(port))
    engine.flags = portable(port, "LOOPBACK")


NEEDS = {
    job_api: None,
    flink: (FLINK, "Java 11 or newer and Maven"),
    spark: (SPARK, "Java 11 or newer and Maven"),
    prism: (PRISM, "Go"),
}
"""What `make test-engines` installs for an engine, and what it needs for that."""


def needed(engine: Callable[[Engine], None]) -> None:
    """Skips a test when an engine is not installed."""
    if (what := NEEDS[engine]) and not what[0].exists():
        pytest.skip(f"run `make test-engines`, which needs {what[1]}")


@contextmanager
def running(add_parts: Callable[[Engine], None], folder: Path) -> Iterator[Engine]:
    """An engine that ends with the block."""
    engine = Engine(folder)
    try:
        add_parts(engine)
        yield engine
    finally:
        engine.stop()


def worker_pool(engine: Engine, checkout: Path = CHECKOUT) -> list[str]:
    """The flags that name a pool of workers, started from a checkout."""
    port, pool = free_port(), "apache_beam.runners.worker.worker_pool_main"
    path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    command = ["env", f"--chdir={checkout}", f"PYTHONPATH={checkout}", path]
    command += [sys.executable, "-m", pool, f"--service_port={port}"]
    engine.start("worker_pool", command, lambda: listens(port))
    return ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]


def start(
    module: str, arguments: Sequence[object], by: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """Starts a module from the plain command line, in a process of its own, by another if given."""
    return subprocess.Popen(
        [*by, sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | environment,
    )  # fmt: skip


def ended(started: subprocess.Popen[str], seconds: float = 600) -> tuple[int, str]:
    """The exit code of a process, and what it printed."""
    with started:
        try:
            said, _ = started.communicate(timeout=seconds)
        finally:
            started.kill()
    return started.returncode, said


def children(processes: Sequence[int], command: str) -> list[int]:
    """The processes under some processes whose command line holds some text."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((one / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in processes:
                found += [int(one.name)] * (command in (one / "cmdline").read_text())
                found += children([int(one.name)], command)
    return found


def written(output: Path) -> dict[str, str]:
    """The SHA-256 of every file."""
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in output.iterdir()}


def succeeds(started: subprocess.Popen[str]) -> str:
    """What a process printed, which must end with 0."""
    code, said = ended(started)
    assert code == 0, said
    return said


def preprocessed(log: Path, output: Path, *flags: str) -> dict[str, str]:
    """What preprocess writes."""
    places = ["--input", log, "--output", output]
    succeeds(start("pipelines.preprocess", [*places, *OPTIONS, *flags]))
    return written(output)


def embedded(model: Path, corpus: Path, output: Path, *flags: str) -> dict[str, str]:
    """What embed writes."""
    places = ["--model", model, "--input", corpus, "--output", output]
    assert "1,200 vectors of length 7" in succeeds(start("pipelines.embed", [*places, *flags]))
    return written(output)
