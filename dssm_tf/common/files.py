"""Nothing half-written: write aside, then move."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from dssm_tf.common.errors import UserError


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO]:  # type: ignore[type-arg]
    """Opens a temporary file beside `path` and moves it there when the block succeeds.

    Args:
        path: the file to write; its directory is made if missing.
        mode: `"w"` for UTF-8 text with Unix line ends, `"wb"` for bytes.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: Path | str, *, owned_patterns: Sequence[str] = ()) -> Iterator[Path]:
    """Yields a directory that becomes `path` when the block succeeds.

    Until then it lies beside `path` as `.NAME.incomplete`, for nobody else to read. What `path`
    held before is moved to `.NAME.replaced`, the new one takes its place, and the old one goes. A
    process killed on the way leaves these names; the next one that writes `path` finds them, puts
    back an old directory that nothing has replaced, and removes the rest. `.NAME.writing` keeps two
    processes apart.

    Args:
        path: the directory to make; where it is a link, what the link names.
        owned_patterns: what may be replaced, see `check_replaceable`; nothing if empty.

    Raises:
        UserError: `path` holds something that may not be replaced, or another process writes it.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.incomplete")
    old = path.with_name(f".{path.name}.replaced")
    with exclusive_lock(path):
        shutil.rmtree(aside, ignore_errors=True)
        if old.exists():
            if path.exists():
                _give_up(old, aside)
            else:
                old.rename(path)
        check_replaceable(path, owned_patterns)
        aside.mkdir(0o700)
        try:
            yield aside
            check_replaceable(path, owned_patterns)  # somebody else may have made it meanwhile
            aside.chmod(0o777 & ~_umask())
            _swap(aside, path, old)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def _swap(new: Path, path: Path, old: Path) -> None:
    if not path.exists():
        new.rename(path)
        return
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    _give_up(old, new)


def _give_up(old: Path, aside: Path) -> None:
    """Removes a directory under another name: what is called `old` is always whole."""
    old.rename(aside)
    shutil.rmtree(aside)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Keeps other processes from writing a directory; the lock of a killed one is nobody's.

    Raises:
        UserError: another process writes it.
    """
    from filelock import FileLock, Timeout  # not where NumPy is all there is

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
    """Raises UserError when `path` is a file or a directory that holds something."""
    check_replaceable(path, ())


def check_replaceable(path: Path, owned_patterns: Sequence[str]) -> None:
    """Raises UserError when `path` cannot become another directory, or would take more with it.

    Args:
        path: a directory to be; fine where there is none, or an empty one.
        owned_patterns: patterns of the names that may be deleted. A directory that is not empty
            must have a name that matches the first.
    """
    if path.is_dir() and os.path.ismount(path):
        raise UserError(f"{path} is a mount point; name a directory inside it.")
    names = sorted(one.name for one in path.iterdir()) if path.is_dir() else []
    if path.exists() and not (path.is_dir() and (owned_patterns or not names)):
        raise UserError(
            f"{path} exists already; choose another name, remove it first, or give --overwrite if "
            "the command has it."
        )
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in owned_patterns):
            raise UserError(
                f"{path} is not replaced: this command did not write {name} in it. Choose "
                "another name, or move it first."
            )
    if names and not any(fnmatchcase(name, owned_patterns[0]) for name in names):
        raise UserError(
            f"{path} is not replaced, because it holds no {owned_patterns[0]}, which this command "
            "writes; choose another name, or remove it first."
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
