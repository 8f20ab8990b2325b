"""Runs jobs in processes of their own, as many at a time as cores and memory allow."""

from __future__ import annotations

import json
import os
import re
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

_GIB = 1 << 30
_EACH = 2 * _GIB  # memory counted for a job by default: TensorFlow with a small model
_RESERVE = _GIB // 2
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


def available_memory() -> int:
    """Bytes that can be used: what the machine has free, or a container's limit."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: all of the machine's memory
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text("ascii"))
        if limit.isdecimal():
            free = min(free, int(limit) - used)
    except (OSError, ValueError):
        pass  # no container
    return max(free, 0)


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def default_jobs(memory: int) -> int:
    """Processes at a time: one a core, and no more than memory holds."""
    return max(1, min(cores(), (memory - _RESERVE) // _EACH))


def run_jobs(
    jobs: Sequence[Job], at_a_time: int, memory: int, console: Console | None = None
) -> None:
    """Runs the jobs that have no result yet; one that fails keeps the reason in `error`.

    When the running jobs together need more than `memory`, the youngest is stopped and
    runs again later, alone; a job that needs more when it is alone fails.

    Args:
        jobs: what to run.
        at_a_time: processes at a time; each may use an equal share of the cores.
        memory: bytes that all processes together may use.
        console: where to show progress.
    """
    waiting = [job for job in jobs if not job.done]
    alone: list[Job] = []  # those that did not fit beside others
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
                    running.append(_start(alone.pop(0), environment, progress))
                sleep(_POLL)
                for one in list(running):
                    _show(one.task, _read(one.job.folder / STAGE))
                    code = one.process.poll()
                    if code is not None:
                        running.remove(one)
                        progress.remove(one.task)
                        _finish(one.job, code)
                        total.advance()
                if sum(_resident(one.process.pid) for one in running) > memory:
                    youngest = running.pop()
                    _stop(youngest, progress)
                    if running:
                        alone.append(youngest.job)
                    else:
                        total.advance()
                        youngest.job.error = (
                            f"needed more than the {memory / _GIB:.1f} GiB it may use; "
                            "raise --memory"
                        )
        finally:
            for one in running:
                _stop(one, progress)


def _show(task: Task, stage: str) -> None:
    """Shows what a job is at; "3 of 7" there fills the bar as far, other stages make it pulse."""
    counted = _COUNTED.search(stage)
    task.total = int(counted[2]) if counted else None
    task.update(int(counted[1]) if counted else 0, stage)


def _start(job: Job, environment: dict[str, str], progress: Progress) -> _Running:
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
    return _Running(job, process, progress.add(Task(job.label, unit="")))


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


def _resident(process: int) -> int:
    """Bytes a process holds in memory; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return "starting"
