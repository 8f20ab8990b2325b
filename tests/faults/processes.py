"""Runs each command in its own process, with a fault: a kill, a limit or a wrong clock.

Python's fork server imports the large libraries once and forks a child per command.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.commands import shorten_demo

TIMEOUT = 3600.0  # seconds; commands are slow on a busy machine
TEMPORARY = "temporary"
_CONTEXT = multiprocessing.get_context("forkserver")
_DROP_FROM_BOUNDING_SET = 24
_CAPABILITIES = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root may read and write all
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_REMOVALS = ("os.remove", "os.rmdir")
_EVENTS = (*_REMOVALS, "os.rename", "os.mkdir", "os.chmod", "os.truncate")


@dataclass(frozen=True)
class Fault:
    """A fault while a command runs.

    Attributes:
        event: the command kills itself before its n-th change of files in `folder`, from 1.
        seconds: the command is killed after this time.
        file_bytes: no file grows beyond this size.
        has_permissions: False to enforce the permissions of files, even if the user is root.
        clock_shift: seconds by which the clock of Python is wrong.
    """

    event: int | None = None
    seconds: float | None = None
    file_bytes: int | None = None
    has_permissions: bool = True
    clock_shift: float = 0.0


NO_FAULT = Fault()


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: its exit code; negative for a signal.
        output: its standard output and standard error.
        events: the number of its changes of files; 0 if it was killed.
        opened: the names of the files in `folder` that Python opened for writing; none if it was
            killed.
        leftovers: the names of the files that it left in the directory for temporary files; a
            killed process may leave some. Generated code, whose names begin with an underscore, is
            left out: TensorFlow removes it when Python exits, but `_work` ends the process.
        seconds: the time that it took.
    """

    code: int
    output: str
    events: int
    opened: list[str]
    leftovers: list[str]
    seconds: float


def preload() -> None:
    """Makes the fork server import the large libraries."""
    _CONTEXT.set_forkserver_preload(["dssm_tf.training.train", "dssm_tf.cli", __name__])


class Process:
    """A running command.

    Args:
        arguments: those of `dssm`.
        folder: the directory whose changes are counted.
        fault: see `Fault`.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, fault: Fault = NO_FAULT) -> None:
        self._fault, self._started = fault, time.monotonic()
        self._private = tempfile.TemporaryDirectory()
        self._process = _CONTEXT.Process(
            target=_work, args=(Path(self._private.name), arguments, folder, fault)
        )
        self._process.start()

    def wait(self) -> Outcome:
        """Waits for the end of the command; kills it after the fault's `seconds`."""
        if self._fault.seconds is not None:
            self._process.join(self._fault.seconds)
            self._process.kill()
        self._process.join(TIMEOUT)
        seconds, code = time.monotonic() - self._started, self._process.exitcode
        if code is None:
            self._process.kill()
            raise TimeoutError("the command has not ended")
        with self._private as private:
            output = (Path(private) / "output").read_text("utf-8", "replace")
            count = Path(private) / "events"
            events, opened = json.loads(count.read_text("utf-8")) if count.exists() else (0, [])
            leftovers = sorted(path.name for path in (Path(private) / TEMPORARY).glob("[!_]*"))
        return Outcome(code, output, events, opened, leftovers, seconds)


def run(arguments: Sequence[str], folder: Path, fault: Fault = NO_FAULT) -> Outcome:
    """Runs a command; for the arguments see `Process`."""
    return Process(arguments, folder, fault).wait()


def _work(private: Path, arguments: Sequence[str], folder: Path, fault: Fault) -> None:
    """Runs the command in the child; never returns."""
    descriptor = os.open(private / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    from dssm_tf.cli import main

    temporary = private / TEMPORARY
    temporary.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    _apply(fault)
    if arguments[0] == "demo":
        shorten_demo()
    counter = _Counter(str(folder), fault.event)
    sys.addaudithook(counter)
    code = 70
    try:
        code = main(arguments)
    finally:
        counter.event = None
        sys.stdout.flush()
        sys.stderr.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        (private / "events").write_text(
            json.dumps([counter.count, sorted(counter.opened)]), "utf-8"
        )
        os._exit(code)


def _apply(fault: Fault) -> None:
    """Sets the limits of this process."""
    if not fault.has_permissions:
        _drop_capabilities()
    if fault.clock_shift:
        for name in ("time", "time_ns"):
            setattr(time, name, partial(_shifted, getattr(time, name), fault.clock_shift))
    if fault.file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_bytes, hard))


def _shifted(clock: Any, shift: float) -> Any:
    now = clock()
    return now + (shift if isinstance(now, float) else int(shift * 1e9))


def _drop_capabilities() -> None:
    """Removes root's right to ignore permissions (capset of Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    data = (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    mask = ~sum(1 << number for number in _CAPABILITIES) & 0xFFFFFFFF
    for field in range(3):  # effective, permitted, inheritable
        data[field] &= mask
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
    for number in _CAPABILITIES:
        libc.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0)


class _Counter:
    """Counts the changes of files in a directory; kills the process at the n-th."""

    def __init__(self, folder: str, event: int | None) -> None:
        self._folder, self.event, self.count = folder, event, 0
        self.opened: set[str] = set()

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING:
                return
        elif name in _EVENTS:
            path = arguments[0]
            if name in _REMOVALS and arguments[1] >= 0:  # relative to an open directory
                path = os.path.join(os.readlink(f"/proc/self/fd/{arguments[1]}"), path)
        else:
            return
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self._folder):
            self.count += 1
            if name == "open":
                self.opened.add(os.path.relpath(path, self._folder))
            if self.count == self.event:
                os.kill(os.getpid(), signal.SIGKILL)
