"""Training runs in separate processes, which tests can kill.

Importing TensorFlow takes seconds. So one process, Python's fork server, imports it and forks a
child per run, before a thread or a device has been started.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

TIMEOUT = 1800.0  # seconds; a run of the tests takes a few, but the machine may be busy
CONTEXT = multiprocessing.get_context("forkserver")


@dataclass
class Outcome:
    """How a run ended.

    Args:
        signal: the signal that killed it, or 0.
        output: everything it printed.
        result: fields of `dssm_tf.training.run_directory.Result` if it finished.
        error: message of its `UserError`.
    """

    signal: int
    output: str
    result: dict[str, Any] | None = None
    error: str | None = None


class Run:
    """A training run in its own process; for the arguments see `_work`."""

    def __init__(self, folder: Path, *work: Any) -> None:
        self._folder = folder
        self._process = CONTEXT.Process(target=_work, args=(folder, *work), daemon=True)
        self._process.start()
        self.kill = self._process.kill
        self.signal = partial(os.kill, self._process.pid)

    def wait(self) -> Outcome:
        """Waits for the end of the process."""
        self._process.join(TIMEOUT)
        code = self._process.exitcode
        if code is None:
            self.kill()
            raise TimeoutError(f"{self._folder} has not ended")
        output = (self._folder / "output").read_text("utf-8")
        if code > 0:
            raise RuntimeError(output)
        answer = self._folder / "answer.json"
        return Outcome(-code, output, **json.loads(answer.read_text("utf-8")) if not code else {})


class TrainingProcesses(ExitStack):
    """Starts runs until the block ends, and then kills those that are still running."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        CONTEXT.set_forkserver_preload(["dssm_tf.training.train"])
        self._folder = folder

    def start(
        self,
        *arguments: Any,
        die_at: tuple[str, int] | None = None,
        **options: Any,
    ) -> Run:
        """Starts a run.

        Args:
            arguments: positional arguments of `trained`.
            die_at: an event and n: the process kills itself with SIGKILL at the n-th `batch`
                (from 1), or before it moves the file of that name into place for the n-th time.
            options: keyword arguments of `trained`.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        run = Run(folder, die_at, arguments, options)
        self.callback(run.kill)
        return run

    def train(self, *arguments: Any, **options: Any) -> Outcome:
        """Starts a run and waits for its outcome."""
        return self.start(*arguments, **options).wait()


def trained(
    config: Mapping[str, Any],
    data: Path,
    out: Path,
    *,
    start: Path | None = None,
    devices: int = 1,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Trains, and returns the result or the error.

    Args:
        config: plain data for `parse_config`.
        data: the preprocessed directory.
        out: the run's directory.
        start: an earlier run for a warm start.
        devices: number of logical CPUs.
        environment: environment variables.
    """
    import tensorflow as tf

    from dssm_tf.common.errors import UserError
    from dssm_tf.config import parse_config
    from dssm_tf.training.train import train

    os.environ.update(environment or {})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_visible_devices([cpu])
    logical_device = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [logical_device] * devices)
    try:
        return {"result": vars(train(parse_config(config), data, out, start=start))}
    except UserError as error:
        return {"error": str(error)}


def _work(folder: Path, die_at, arguments, options) -> None:
    """Trains, in the child; never returns."""
    descriptor = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    code = 1
    try:
        if die_at:
            _die_at(*die_at)
        (folder / "answer.json").write_text(json.dumps(trained(*arguments, **options)), "utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _die_at(event: str, n: int) -> None:
    """Makes this process kill itself at the n-th event."""
    from dssm_tf.training.checkpoint import Checkpoint

    event_count = itertools.count(1)

    def with_kill(method: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            if name(*arguments) == event and next(event_count) == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments)

        return wrapper

    def target(_: Path, to: Path | str) -> str:
        return Path(to).name

    Checkpoint.on_train_batch_end = with_kill(Checkpoint.on_train_batch_end, lambda *_: "batch")
    Path.replace = with_kill(Path.replace, target)
