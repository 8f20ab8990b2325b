"""Atomic writes: files and directories are written under a temporary name, then renamed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from dssm_tf.common.errors import UserError


def store_url(path: Path) -> str | None:
    """The URL of a path such as `gs://bucket/x`, whose slashes `Path` merges; None if it is local.

    >>> store_url(Path("gs://bucket/x")), store_url(Path("runs/x"))
    ('gs://bucket/x', None)
    """
    if re.match("[A-Za-z][A-Za-z0-9+.-]+:/", path.as_posix()):
        return path.as_posix().replace(":/", "://", 1)
    return None


def check_regular_file(path: Path, hint: str) -> None:
    """Checks that a path is no pipe, device or directory; it may be missing.

    Args:
        path: a file; to open a pipe could take forever.
        hint: a sentence for the error message that says how to fix the problem.

    Raises:
        UserError: the path exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file. {hint}")


DATA_FILE_HINT = "Write the data to a file first; .gz files are read directly."
"""The hint of `refuse_special_file` for a file of data."""


def refuse_special_file(path: Path | str, hint: str, *, allow_pipe: bool = False) -> None:
    """Refuses devices, pipes and sockets. Directories and missing paths are left to the caller.

    Args:
        path: a file of input. Some devices never end, and a pipe can be read only once.
        hint: a sentence for the error message that says how to fix the problem.
        allow_pipe: whether a pipe is allowed, because the command reads the file only once.

    Raises:
        UserError: the path is a device, a pipe or a socket.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return  # whoever opens the file reports this
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or (allow_pipe and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISFIFO(mode):
        raise UserError(f"{path} is a pipe; expected a file, which can be read twice. {hint}")
    kind = "socket" if stat.S_ISSOCK(mode) else "device"
    raise UserError(f"{path} is a {kind}; expected a file. {hint}")


def local_path(path: Path | str) -> Path:
    """A path of this machine.

    Raises:
        UserError: it is the URL of a store.
    """
    path = Path(path)
    if store := store_url(path):
        raise UserError(f"{store} is not a local path; copy it to this machine.")
    return path


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO]:  # type: ignore[type-arg]
    """Opens a temporary file and renames it to `path` if the block succeeds.

    The temporary file is `.NAME.*.incomplete` next to `path`. A killed process may leave it; the
    next process that writes `path` deletes it.

    Args:
        path: the file to write; its directory is created if missing.
        mode: `"w"` for UTF-8 text with Unix line ends, `"wb"` for bytes.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text_options = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    descriptor, name = _temporary_file(path)
    try:
        with os.fdopen(descriptor, mode, **text_options) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _temporary_file(path: Path) -> tuple[int, str]:
    """Creates and locks a file next to `path`; deletes those that killed processes have left.

    Returns:
        Its descriptor and its path.
    """
    prefix, suffix = f".{path.name}.", ".incomplete"
    for entry in list(os.scandir(path.parent)):
        if entry.name.startswith(prefix) and entry.name.endswith(suffix):
            with suppress(OSError), open(entry.path, "rb") as file:
                if _lock(file.fileno(), wait=False):
                    os.unlink(entry.path)
    while True:
        descriptor, name = tempfile.mkstemp(suffix, prefix, path.parent)
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # another process deleted it before it was locked


def _lock(descriptor: int, wait: bool) -> bool:
    """Locks a file until it is closed; returns False if another process has the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also of file systems without locks
        return False
    return True


@contextmanager
def atomic_directory(
    path: Path | str, *, owned_patterns: Sequence[str] = (), overwrite_flag: str = ""
) -> Iterator[Path]:
    """Yields a new directory that is renamed to `path` if the block succeeds.

    The new directory is `.NAME.incomplete` next to `path`, readable by its owner only. If `path`
    exists, it is renamed to `.NAME.replaced`, the new directory is renamed to `path`, and the old
    one is deleted. A killed process may leave both names. The next process that writes `path`
    restores the old directory if `path` does not exist, and deletes the rest. The lock file
    `.NAME.writing` excludes other processes.

    Args:
        path: the directory to write; a symbolic link is followed.
        owned_patterns: the files that may be replaced, see `check_replaceable`; none if empty.
        overwrite_flag: see `check_replaceable`.

    Raises:
        UserError: `path` has files that may not be replaced, or another process writes it.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.incomplete")
    old = path.with_name(f".{path.name}.replaced")
    with exclusive_lock(path):
        shutil.rmtree(new, ignore_errors=True)
        if old.exists():
            if path.exists():
                _remove(old, new)
            else:
                old.rename(path)
        check_replaceable(path, owned_patterns, overwrite_flag)
        new.mkdir(0o700)
        try:
            yield new
            check_replaceable(
                path, owned_patterns, overwrite_flag
            )  # it may have been created meanwhile
            new.chmod(0o777 & ~_umask())
            _swap(new, path, old)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


@contextmanager
def refilled_directory(
    path: Path | str, *, owned_patterns: Sequence[str], last_file: str
) -> Iterator[None]:
    """Empties the directory `path`; the block fills it in place, and writes `last_file` last.

    For directories whose files contain their own paths; others are written by `atomic_directory`.
    An earlier complete directory waits under the name `.NAME.replaced`. It is deleted when the
    block succeeds, and restored when the block fails. If the process is killed, the next one that
    writes `path` does this.

    Args:
        path: the directory to write; a symbolic link is followed.
        owned_patterns: see `check_replaceable`; the first one is the name of the empty file.
        last_file: a file that only a complete directory has.

    Raises:
        UserError: `path` has files that may not be replaced, or another process writes it.
    """
    path = Path(os.path.realpath(path))
    removed = path.with_name(f".{path.name}.incomplete")
    old = path.with_name(f".{path.name}.replaced")
    with exclusive_lock(path):
        check_replaceable(path, owned_patterns)
        shutil.rmtree(removed, ignore_errors=True)
        if old.exists() and (path / last_file).exists():
            _remove(old, removed)
        is_cleared = False
        try:
            if path.exists():
                if (path / last_file).exists():
                    path.rename(old)
                else:
                    _remove(path, removed)
            is_cleared = True
            path.mkdir()
            (path / owned_patterns[0]).touch()
            yield
        except BaseException:
            if is_cleared and path.exists():
                with suppress(OSError):  # the first error is the one to report
                    _remove(path, removed)
            if old.exists() and not path.exists():
                old.rename(path)
            raise
        if old.exists():
            _remove(old, removed)


def _swap(new: Path, path: Path, old: Path) -> None:
    """Renames `new` to `path`; a directory that is there is replaced."""
    if not path.exists():
        new.rename(path)
        return
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    _remove(old, new)


def _remove(old: Path, temporary: Path) -> None:
    """Removes `old`, renamed first: a kill never leaves a half-deleted directory of that name."""
    old.rename(temporary)
    shutil.rmtree(temporary)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Locks a directory for writing. The lock ends with the process, even if it is killed.

    Raises:
        UserError: another process has the lock.
    """
    from filelock import FileLock, Timeout  # the NumPy runtime does not install it

    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.writing"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(f"{path} is being written by another process.") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def refuse_existing(path: Path) -> None:
    """Raises UserError if `path` is a file or a directory that is not empty."""
    check_replaceable(path, ())


def check_replaceable(path: Path, owned_patterns: Sequence[str], overwrite_flag: str = "") -> None:
    """Raises UserError if replacing a directory is impossible or would delete a user's files.

    Args:
        path: the directory. It may be missing or empty.
        owned_patterns: patterns of the names that may be deleted. If the directory is not empty,
            one of its names must match the first pattern.
        overwrite_flag: the flag by which the command replaces its own files, for the message; empty
            if it has none or it was given.
    """
    if path.is_dir() and os.path.ismount(path):
        raise UserError(f"{path} is a mount point; name a directory inside it.")
    names = sorted(child.name for child in path.iterdir()) if path.is_dir() else []
    if path.exists() and not (path.is_dir() and (owned_patterns or not names)):
        way = f", remove it first, or give {overwrite_flag}" if overwrite_flag else ", or remove it"
        raise UserError(f"{path} exists already; choose another name{way}.")
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in owned_patterns):
            raise UserError(
                f"{path} is not replaced: this command did not write {name} in it. Choose "
                "another name, or move it first."
            )
    if names and not any(fnmatchcase(name, owned_patterns[0]) for name in names):
        raise UserError(
            f"{path} is not replaced, because it contains no {owned_patterns[0]}, which this "
            "command writes; choose another name, or remove it first."
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
