"""Where a command ends: what went wrong is one line on the error stream, and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dssm_tf.common.errors import UserError

# Families of errors that tell of files and machines, by name: their libraries are not imported
# here. TensorFlow and Arrow meet a full disk or a damaged file without an OSError.
_OUTSIDE = {
    ("tensorflow.python.framework.errors_impl", "OpError"),
    ("pyarrow.lib", "ArrowException"),
    ("zipfile", "BadZipFile"),
    ("zlib", "error"),
}
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_MOST_LETTERS = 600


def run_command(name: str, run: Callable[[], Any]) -> int:
    """Runs a command.

    `DSSM_DEBUG=1` shows the traceback of every error. A first Ctrl-C ends the command in order; a
    second one ends the process at once, by SIGINT.

    Args:
        name: what the line starts with.
        run: does the work.

    Returns:
        0 done, 1 failed with a one-line reason on standard error.
    """
    _write_whatever_the_locale()
    with _CtrlC() as ctrl_c:
        try:
            run()
            return 0
        except BrokenPipeError:  # the reader of our output went away
            sys.stderr.close()
            return 1
        except (KeyboardInterrupt, Exception) as error:
            if ctrl_c.pressed or isinstance(error, KeyboardInterrupt):
                reason = "interrupted; the same command resumes, or starts over"
            else:
                line = one_line(error)
                if line is None or os.environ.get("DSSM_DEBUG"):
                    raise
                reason = line
    sys.stderr.write(f"{name}: {reason}\n")
    return 1


class _CtrlC:
    """Raises KeyboardInterrupt at the first Ctrl-C; the second one ends the process at once.

    Python drops an exception that is raised in a destructor or in a callback from C. TensorFlow
    runs both while it traces a step, so the first Ctrl-C may be lost, or become another error.

    Attributes:
        pressed: whether there was a Ctrl-C.
    """

    pressed = False

    def __enter__(self) -> _CtrlC:
        self._previous = signal.getsignal(signal.SIGINT)
        self._replace = (
            self._previous is signal.default_int_handler
            and threading.current_thread() is threading.main_thread()
        )
        if self._replace:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._replace:
            signal.signal(signal.SIGINT, self._previous)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt


def one_line(error: BaseException) -> str | None:
    """What an error says to a person; None for one that only the program's authors can mend."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):  # no permission, not a directory: it names the file
        return _short(error)
    for cause in _chain(error):  # HDF5 and ZIP files raise another error while they clean up
        if any(os.strerror(number) in str(cause) for number in _DISK):
            return _short(cause)
    if isinstance(error, MemoryError):
        return f"out of memory. {_short(error)}".strip()
    for kind in type(error).__mro__:
        if (kind.__module__, kind.__qualname__) in _OUTSIDE:
            return f"{_short(error)} ({type(error).__name__})"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + " ..."


def _write_whatever_the_locale() -> None:
    """Has the output streams escape what their encoding lacks, as ASCII lacks a middle dot."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
