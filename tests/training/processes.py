"""Training runs in processes of their own, which tests may kill.

Importing TensorFlow takes seconds, so one process, Python's fork server, imports it and then forks
a child a run, before any of them has started a thread or a device.
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
FORKS = multiprocessing.get_context("forkserver")


@dataclass
class Outcome:
    """How a run ended.

    Args:
        signal: that killed it, or 0.
        output: everything it printed.
        result: fields of `dssm_tf.training.run_directory.Result`, when it finished.
        error: its `UserError`.
    """

    signal: int
    output: str
    result: dict[str, Any] | None = None
    error: str | None = None


class Run:
    """A training run in a process of its own; `_work` has the arguments."""

    def __init__(self, folder: Path, *work: Any) -> None:
        self._folder = folder
        self._process = FORKS.Process(target=_work, args=(folder, *work), daemon=True)
        self._process.start()
        self.kill = self._process.kill
        self.signal = partial(os.kill, self._process.pid)

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
        return Outcome(-code, output, **json.loads(answer.read_text("utf-8")) if not code else {})


class TrainingProcesses(ExitStack):
    """Starts runs until the block ends; what still runs then is killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        FORKS.set_forkserver_preload(["dssm_tf.training.train"])
        self._folder = folder

    def start(
        self,
        *arguments: Any,
        die_at: tuple[str, int] | None = None,
        **options: Any,
    ) -> Run:
        """Starts a run.

        Args:
            arguments: of `trained`.
            die_at: it kills itself with SIGKILL at the n-th (from 1) `batch` it trained, or when
                it is about to move the file of that name into place for the n-th time.
            options: of `trained`.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        run = Run(folder, die_at, arguments, options)
        self.callback(run.kill)
        return run

    def train(self, *arguments: Any, **options: Any) -> Outcome:
        """Starts a run and waits for its end."""
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
    """Trains.

    Args:
        config: as `parse_config` takes it.
        data: the directory of records.
        out: the run.
        start: an earlier run.
        devices: logical CPUs.
        environment: variables set for it.
    """
    import tensorflow as tf

    from dssm_tf.common.errors import UserError
    from dssm_tf.config import parse_config
    from dssm_tf.training.train import train

    os.environ.update(environment or {})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_visible_devices([cpu])
    one = tf.config.LogicalDeviceConfiguration
    tf.config.set_logical_device_configuration(cpu, [one()] * devices)
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


def _die_at(event: str, number: int) -> None:
    """Makes this process kill itself at the n-th event, in the middle of what it does."""
    from dssm_tf.training.checkpoint import Checkpoint

    seen = itertools.count(1)

    def watched(method: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            if name(*arguments) == event and next(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments)

        return counted

    def target(_: Path, to: Path | str) -> str:
        return Path(to).name

    Checkpoint.on_train_batch_end = watched(Checkpoint.on_train_batch_end, lambda *_: "batch")
    Path.replace = watched(Path.replace, target)
