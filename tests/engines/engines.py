"""Engines as processes of this machine: each yields the flags that send a pipeline there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
OPENED = ("util", "lang", "net", "io", "util.concurrent")  # packages of java.base that Flink reads
TASK_MANAGER = {
    "cpu.cores": "1",
    "memory.task.heap.size": "384m",
    "memory.task.off-heap.size": "0m",
    "memory.framework.heap.size": "128m",
    "memory.framework.off-heap.size": "128m",
    "memory.network.min": "256m",
    "memory.network.max": "256m",
    "memory.managed.size": "128m",
    "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "192m",
    "memory.jvm-overhead.max": "192m",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


@contextmanager
def process(command: Sequence[object], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield started
        finally:
            started.terminate()
            started.wait(60)


def wait_until(ready: Callable[[], object], what: str, log: Path, seconds: float = 120) -> None:
    """Waits for an engine to answer; raises TimeoutError with the end of its log."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{what} did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")


def listens(port: int) -> bool:
    """Whether somebody answers at a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


@contextmanager
def job_api(folder: Path) -> Iterator[list[str]]:
    """Beam's own job service, which runs jobs in its process: the job API without an engine."""
    port, log = free_port(), folder / "job_service.log"
    service = "apache_beam.runners.portability.local_job_service_main"
    with process([sys.executable, "-m", service, "--port", port], log):
        wait_until(lambda: listens(port), "the job service", log)
        yield portable(port, "LOOPBACK")


@contextmanager
def flink(jars: Path, folder: Path, task_managers: int = 2) -> Iterator[list[str]]:
    """A Flink cluster with memory limits, and Beam's job server before it.

    Args:
        jars: what `pom.xml` names, copied into one folder.
        folder: for logs.
        task_managers: how many, with one slot each.
    """
    rest, rpc, job, artifacts, expansion = (free_port() for _ in range(5))
    (folder / "config.yaml").write_text(
        f"jobmanager.rpc.address: localhost\njobmanager.rpc.port: {rpc}\n"
        f"jobmanager.bind-host: localhost\njobmanager.memory.process.size: 1024m\n"
        f"rest.address: localhost\nrest.bind-address: localhost\nrest.port: {rest}\n"
        "taskmanager.host: localhost\ntaskmanager.bind-host: localhost\n"
        f"taskmanager.numberOfTaskSlots: 1\nparallelism.default: {task_managers}\n",
        "utf-8",
    )
    boot = folder / "boot"  # what a container would start: a worker of this Python and checkout
    boot.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={CHECKOUT}\n"
        f'exec {sys.executable} {CHECKOUT / "tests/engines/boot.py"} "$@"\n',
        "utf-8",
    )
    boot.chmod(0o755)
    java = ["java", *(f"--add-opens=java.base/java.{one}=ALL-UNNAMED" for one in OPENED)]
    java += ["-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-cp", f"{jars}/*"]
    runtime, config = "org.apache.flink.runtime", ["--configDir", folder]
    with ExitStack() as running:

        def start(name: str, *command: object) -> Path:
            log = folder / f"{name}.log"
            running.enter_context(process([*java, *command], log))
            return log

        log = start(
            "job_manager", f"{runtime}.entrypoint.StandaloneSessionClusterEntrypoint", *config
        )
        wait_until(lambda: listens(rest), "Flink's JobManager", log)
        for number in range(task_managers):
            sizes = TASK_MANAGER | {"resource-id": f"manager-{number}"}
            flags = (word for key in sizes for word in ("-D", f"taskmanager.{key}={sizes[key]}"))
            name = f"task_manager_{number}"
            log = start(name, f"{runtime}.taskexecutor.TaskManagerRunner", *config, *flags)
        overview = f"http://localhost:{rest}/overview"

        def all_here() -> bool:
            with urllib.request.urlopen(overview, timeout=5) as answer:
                return bool(json.load(answer)["taskmanagers"] == task_managers)

        wait_until(all_here, "Flink's TaskManagers", log)
        driver = "org.apache.beam.runners.flink.FlinkJobServerDriver"
        ports = ["--job-port", job, "--artifact-port", artifacts, "--expansion-port", expansion]
        address = ["--job-host", "localhost", "--flink-master", f"localhost:{rest}"]
        log = start("job_server", driver, *address, *ports)
        wait_until(lambda: listens(job), "Beam's job server", log)
        worker = json.dumps({"command": str(boot)})
        yield [*portable(job, "PROCESS", worker), f"--parallelism={task_managers}"]


@contextmanager
def prism(program: Path, folder: Path) -> Iterator[list[str]]:
    """Beam's Prism, a runner written in Go."""
    port, web, log = free_port(), free_port(), folder / "prism.log"
    with process([program, f"--job_port={port}", f"--web_port={web}"], log):
        wait_until(lambda: listens(port), "Prism", log)
        yield portable(port, "LOOPBACK")


def portable(port: int, environment: str, config: str = "") -> list[str]:
    """The flags of a job that goes to a job service of this machine."""
    flags = ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]
    flags.append(f"--environment_type={environment}")
    return [*flags, f"--environment_config={config}"] if config else flags


def run(module: str, arguments: Sequence[object]) -> subprocess.CompletedProcess[str]:
    """A pipeline from the plain command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True, text=True, timeout=600, cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
