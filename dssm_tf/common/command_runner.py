"""Runs a command and reports an error as one line on standard error and an exit code."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dssm_tf.common.errors import UserError

# Library errors with a cause outside the program, such as a full disk or a damaged file. They are
# identified by module and class name, so that the libraries need not be imported.
_EXTERNAL_ERRORS = {
    ("tensorflow.python.framework.errors_impl", "OpError"),
    ("pyarrow.lib", "ArrowException"),
    ("zipfile", "BadZipFile"),
    ("zlib", "error"),
}
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_MAX_LENGTH = 600  # characters of an error line
INTERRUPTED = "interrupted; run the same command again to resume or start over"
_MAX_USER_LENGTH = 3000  # characters of the line of a UserError; its end says how to fix it


def run_command(name: str, run: Callable[[], Any]) -> int:
    """Runs a command and reports its error, if any, in one line.

    A bug of this program is raised with its traceback. With the environment variable
    `DSSM_DEBUG=1`, so is every other error. The first Ctrl-C ends the command after its clean-up; a
    second one kills the process at once.

    Args:
        name: start of the error line, such as `dssm train`.
        run: function that does the work.

    Returns:
        The exit code: 0 on success; `exit_code` of a `UserError`; 1 for any other error. The reason
        of a failure is on standard error.
    """
    open_closed_streams()
    _escape_unencodable_output()
    code = 1
    with _CtrlC() as ctrl_c:
        try:
            run()
            sys.stdout.flush()  # reports a full disk as an error of the command
            return 0
        except BrokenPipeError:  # the program that reads the output has ended
            sys.stderr.close()
            return 1
        except (KeyboardInterrupt, Exception) as error:
            if ctrl_c.pressed or isinstance(error, KeyboardInterrupt):
                reason = INTERRUPTED
            else:
                line = error_line(error)
                if line is None or os.environ.get("DSSM_DEBUG"):
                    raise
                reason = line
                code = error.exit_code if isinstance(error, UserError) else 1
    try:
        sys.stdout.flush()
    except OSError:  # Python would flush again at exit, and print a traceback
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
    sys.stderr.write(f"{name}: {reason}\n")
    return code


class _CtrlC:
    """Raises KeyboardInterrupt at the first Ctrl-C; a second one ends the process at once.

    Python drops an exception that is raised in a destructor or in a callback from C. TensorFlow
    runs both while it traces a step, so the first KeyboardInterrupt may be lost or replaced by
    another error. `pressed` is set in any case.

    Attributes:
        pressed: whether Ctrl-C was pressed.
    """

    pressed = False

    def __enter__(self) -> _CtrlC:
        self._previous = signal.getsignal(signal.SIGINT)
        self._is_installed = (
            self._previous is signal.default_int_handler
            and threading.current_thread() is threading.main_thread()
        )
        if self._is_installed:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, self._previous)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt


def error_line(error: BaseException) -> str | None:
    """The message of an error that a user can fix; None for a bug of this program."""
    if isinstance(error, UserError):
        text = str(error)
        if len(text) <= _MAX_USER_LENGTH:
            return text
        return f"{text[: _MAX_USER_LENGTH - _MAX_LENGTH]} ... {text[-_MAX_LENGTH:]}"
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return f"{error.args[0][0][-1]}"  # a list of (source, target, reason)
    if isinstance(error, OSError):  # such as a missing permission; its message names the file
        return _shorten(error)
    for cause in _error_chain(error):  # HDF5 and ZIP files raise another error during clean-up
        if any(os.strerror(number) in str(cause) for number in _DISK_ERRORS):
            return _shorten(cause)
    if isinstance(error, MemoryError):
        return f"out of memory. {_shorten(error)}".strip()
    for kind in type(error).__mro__:
        if (kind.__module__, kind.__qualname__) in _EXTERNAL_ERRORS:
            return f"{_shorten(error)} ({type(error).__name__})"
    return None


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and the errors that caused it, the original one last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _shorten(error: BaseException) -> str:
    """The message of an error in one line of limited length."""
    text = " ".join(str(error).split())
    return text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH] + " ..."


def open_closed_streams() -> None:
    """Replaces standard streams that are closed, as by `dssm train >&-`, by the null device.

    Otherwise the next files that are opened would have the numbers of these streams, and messages
    of TensorFlow would be written into them.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            os.set_inheritable(descriptor, True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _escape_unencodable_output() -> None:
    """Escapes characters that the encoding of an output stream lacks, such as é in ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
