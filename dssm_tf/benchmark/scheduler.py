"""Runs jobs in processes of their own, some at a time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from rich.console import Console

from dssm_tf.benchmark.worker import ERROR, JOB, RESULT, STAGE
from dssm_tf.common.files import atomic_write
from dssm_tf.common.progress import Progress, Task

_POLL = 0.2
_COUNTED = re.compile(r"(\d+) of (\d+)")
_COMMAND = (sys.executable, "-m", "dssm_tf.benchmark.worker")


@dataclass
class Job:
    """One system and seed.

    Attributes:
        name: of the row.
        seed: None for a system that is not random.
        folder: where its result goes.
        specification: see `System.specification`.
        error: why it failed.
    """

    name: str
    seed: int | None
    folder: Path
    specification: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def label(self) -> str:
        """What progress calls it."""
        return self.name if self.seed is None else f"{self.name}, seed {self.seed}"

    @property
    def done(self) -> bool:
        """Whether its result is there."""
        return (self.folder / RESULT).exists()


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    task: Task
    alone: bool


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], at_a_time: int, console: Console | None = None) -> None:
    """Runs the jobs that have no result yet; one that fails keeps the reason in `error`.

    A job that was killed, as the system does where memory runs out, runs again at the end, alone.

    Args:
        jobs: what to run.
        at_a_time: processes at a time; each may use an equal share of the cores.
        console: where to show progress.
    """
    waiting = [job for job in jobs if not job.done]
    alone: list[Job] = []  # those that were killed beside others
    running: list[_Running] = []
    environment = _environment(max(1, cores() // at_a_time))
    with Progress(console) as progress:
        done = len(jobs) - len(waiting)
        total = progress.add(Task("benchmark", len(jobs), "systems", done=done))
        try:
            while waiting or alone or running:
                while waiting and len(running) < at_a_time:
                    running.append(_start(waiting.pop(0), environment, progress))
                if alone and not waiting and not running:
                    running.append(_start(alone.pop(0), environment, progress, alone=True))
                sleep(_POLL)
                for one in list(running):
                    _show(one.task, _read(one.job.folder / STAGE))
                    code = one.process.poll()
                    if code is not None:
                        running.remove(one)
                        progress.remove(one.task)
                        if code == -signal.SIGKILL and not one.alone:
                            alone.append(one.job)
                            continue
                        _finish(one.job, code)
                        total.advance()
        finally:
            for one in running:
                _stop(one, progress)


def _show(task: Task, stage: str) -> None:
    """Shows what a job is at; "3 of 7" there fills the bar as far, other stages make it pulse."""
    counted = _COUNTED.search(stage)
    task.total = int(counted[2]) if counted else None
    task.update(int(counted[1]) if counted else 0, stage)


def _start(
    job: Job, environment: dict[str, str], progress: Progress, alone: bool = False
) -> _Running:
    job.folder.mkdir(parents=True, exist_ok=True)
    for name in (ERROR, STAGE):
        (job.folder / name).unlink(missing_ok=True)
    with atomic_write(job.folder / JOB) as file:
        json.dump({"name": job.name, **job.specification}, file, indent=2)
    with open(job.folder / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [*_COMMAND, str(job.folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
    return _Running(job, process, progress.add(Task(job.label, unit="")), alone)


def _finish(job: Job, code: int) -> None:
    if job.done:
        return
    try:
        job.error = json.loads((job.folder / ERROR).read_text("utf-8"))["error"]
    except (OSError, ValueError):
        how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        job.error = f"{how}; its last words are in {job.folder / 'log.txt'}"


def _stop(one: _Running, progress: Progress) -> None:
    progress.remove(one.task)
    one.process.terminate()
    try:
        one.process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        one.process.kill()
        one.process.wait()


def _environment(threads: int) -> dict[str, str]:
    """That of this process, with fewer threads: processes side by side share the cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    few = {name: str(threads) for name in names if name not in os.environ}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    return {**os.environ, **few, **quiet}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return "starting"
