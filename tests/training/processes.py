"""Training runs in processes of their own, which tests may kill.

Importing TensorFlow takes seconds, so one process imports it and then forks a child a run,
before any of them has started a thread or a device.

Run as a script, it reads one JSON job a line and writes what became of it into the job's folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 1800.0  # seconds; a run of the tests takes a few, but the machine may be busy


@dataclass
class Outcome:
    """How a run ended.

    Args:
        signal: that killed it, or 0.
        result: fields of `dssm_tf.training.run_directory.Result`, when it finished.
        error: its `UserError`.
        output: everything it printed.
    """

    signal: int
    result: dict[str, Any] | None
    error: str | None
    output: str


class Run:
    """A run in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kill(self) -> None:
        """Kills it as `kill -9` does, if it still runs."""
        pid = self._folder / "pid"
        if pid.exists() and not (self._folder / "status").exists():
            os.kill(int(pid.read_text("utf-8")), signal.SIGKILL)

    def wait(self) -> Outcome:
        """Waits for its end."""
        try:
            self._await("status")
            status = int((self._folder / "status").read_text("utf-8"))
        except TimeoutError:
            self.kill()
            raise
        if status > 0:
            raise RuntimeError((self._folder / "output").read_text("utf-8"))
        answer = self._folder / "answer.json"
        found = json.loads(answer.read_text("utf-8")) if answer.exists() else {}
        output = (self._folder / "output").read_text("utf-8")
        return Outcome(-status, found.get("result"), found.get("error"), output)

    def _await(self, name: str) -> None:
        until = time.monotonic() + TIMEOUT
        while not (self._folder / name).exists():
            if time.monotonic() > until:
                raise TimeoutError(f"no {name} in {self._folder}")
            time.sleep(0.02)


class TrainingProcesses:
    """Starts runs."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._number = 0

    def start(
        self,
        config: Mapping[str, Any],
        data: Path,
        out: Path,
        *,
        devices: int = 1,
        environment: Mapping[str, str] | None = None,
        die_at: tuple[str, int] | None = None,
    ) -> Run:
        """Starts a run.

        Args:
            config: as `parse_config` takes it.
            data: the directory of records.
            out: the run.
            devices: logical CPUs.
            environment: variables set for it.
            die_at: it kills itself with SIGKILL at the n-th (from 1) `batch` it trained, or when
                it is about to move the file of that name into place for the n-th time.
        """
        job = {
            "config": dict(config),
            "data": str(data),
            "out": str(out),
            "devices": devices,
            "environment": dict(environment or {}),
            "die_at": die_at,
        }
        return self._send(job)

    def train(self, *arguments: Any, **options: Any) -> Outcome:
        """Starts a run and waits for its end."""
        return self.start(*arguments, **options).wait()

    def export(self, run: Path, out: Path, die_at: tuple[str, int] | None = None) -> Outcome:
        """Exports a run and waits for the end."""
        return self._send({"run": str(run), "out": str(out), "die_at": die_at}).wait()

    def _send(self, job: dict[str, Any]) -> Run:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        self._server.stdin.write(json.dumps(job | {"folder": str(folder)}) + "\n")
        self._server.stdin.flush()
        return Run(folder)


@contextmanager
def training_processes(folder: Path) -> Iterator[TrainingProcesses]:
    """Runs until the block ends; what still runs then is killed."""
    checkout = Path(__file__).resolve().parents[2]
    # A session of its own, so that one signal ends the server and all it started.
    with subprocess.Popen(
        [sys.executable, "-m", "tests.training.processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=checkout,
        start_new_session=True,
    ) as server:
        try:
            yield TrainingProcesses(server, folder)
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def _serve() -> None:
    """Forks a child a job; writes each one's process id and, at its end, its status."""
    import select

    import dssm_tf.training.train  # noqa: F401  (once for all children)

    running: dict[int, Path] = {}
    jobs = open(0, "rb", buffering=0)  # noqa: SIM115  (unbuffered: select sees every line)
    while True:
        ready, _, _ = select.select([jobs], [], [], 0.02)
        if ready:
            line = jobs.readline()
            if not line:
                return
            job = json.loads(line)
            child = os.fork()
            if not child:
                _work(job)
            running[child] = Path(job["folder"])
            _write(running[child] / "pid", str(child))
        for child, folder in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                del running[child]
                _write(folder / "status", str(os.waitstatus_to_exitcode(status)))


def _write(path: Path, text: str) -> None:
    aside = path.with_suffix(".part")
    aside.write_text(text, "utf-8")
    aside.rename(path)


def _work(job: dict[str, Any]) -> None:
    """A job, in the child; never returns."""
    folder = Path(job["folder"])
    descriptor = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    code = 1
    try:
        answer = _answer(job)
        _write(folder / "answer.json", json.dumps(answer))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    from dssm_tf.common.errors import UserError
    from dssm_tf.config import parse_config
    from dssm_tf.training.train import train

    if job["die_at"]:
        _die_at(*job["die_at"])
    if "run" in job:
        from dssm_tf.export.saved_model import export

        return {"result": {"directory": str(export(job["run"], job["out"]))}}
    os.environ.update(job["environment"])
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_visible_devices([cpu])
    one = tf.config.LogicalDeviceConfiguration
    tf.config.set_logical_device_configuration(cpu, [one()] * job["devices"])
    try:
        result = train(parse_config(job["config"]), Path(job["data"]), Path(job["out"]))
    except UserError as error:
        return {"error": str(error)}
    return {"result": vars(result)}


def _die_at(event: str, number: int) -> None:
    """Makes this process kill itself at the n-th event, in the middle of what it does."""
    from dssm_tf.training.keeper import Keeper

    seen = 0
    after_step = Keeper.after_step

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted_step(*arguments):
        count()
        after_step(*arguments)

    def counted(move):
        def moved(self, target):
            if Path(target).name == event:
                count()
            return move(self, target)

        return moved

    if event == "batch":
        Keeper.after_step = counted_step
    else:  # files are replaced, directories renamed
        Path.replace, Path.rename = counted(Path.replace), counted(Path.rename)


if __name__ == "__main__":
    _serve()
