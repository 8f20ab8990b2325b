"""Training runs in processes of their own, which tests may kill.

Importing TensorFlow takes seconds, so one process, Python's fork server, imports it and then forks
a child a run, before any of them has started a thread or a device.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 1800.0  # seconds; a run of the tests takes a few, but the machine may be busy
FORKS = multiprocessing.get_context("forkserver")


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

    def __init__(self, folder: Path, job: Mapping[str, Any]) -> None:
        folder.mkdir()
        self._folder = folder
        self._process = FORKS.Process(target=_work, args=(folder, job), daemon=True)
        self._process.start()

    def kill(self) -> None:
        """Kills it as `kill -9` does, if it still runs."""
        self._process.kill()

    def wait(self) -> Outcome:
        """Waits for its end."""
        self._process.join(TIMEOUT)
        code = self._process.exitcode
        if code is None:
            self.kill()
            raise TimeoutError(f"{self._folder} has not ended")
        output = (self._folder / "output").read_text("utf-8")
        if code > 0:
            raise RuntimeError(output)
        answer = self._folder / "answer.json"
        found = json.loads(answer.read_text("utf-8")) if answer.exists() else {}
        return Outcome(-code, found.get("result"), found.get("error"), output)


class TrainingProcesses:
    """Starts runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.runs: list[Run] = []

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
        job = {"config": config, "data": data, "out": out, "devices": devices}
        return self._start(job | {"environment": environment or {}, "die_at": die_at})

    def train(self, *arguments: Any, **options: Any) -> Outcome:
        """Starts a run and waits for its end."""
        return self.start(*arguments, **options).wait()

    def export(self, run: Path, out: Path, die_at: tuple[str, int]) -> Outcome:
        """Exports a run and waits for the end."""
        return self._start({"run": run, "out": out, "die_at": die_at}).wait()

    def _start(self, job: Mapping[str, Any]) -> Run:
        self.runs.append(Run(self._folder / str(len(self.runs)), job))
        return self.runs[-1]


@contextmanager
def training_processes(folder: Path) -> Iterator[TrainingProcesses]:
    """Runs until the block ends; what still runs then is killed."""
    FORKS.set_forkserver_preload(["dssm_tf.training.train"])
    started = TrainingProcesses(folder)
    try:
        yield started
    finally:
        for run in started.runs:
            run.kill()


def _work(folder: Path, job: Mapping[str, Any]) -> None:
    """A job, in the child; never returns."""
    descriptor = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    code = 1
    try:
        (folder / "answer.json").write_text(json.dumps(_answer(job)), "utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(job: Mapping[str, Any]) -> dict[str, Any]:
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
        result = train(parse_config(job["config"]), job["data"], job["out"])
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
