"""Nothing half-written: write aside, then move."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
def atomic_directory(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yields a temporary directory beside `path` and moves it there when the block succeeds.

    Args:
        path: the directory to make.
        replace: whether an existing directory may be replaced.

    Raises:
        UserError: `path` exists, is not an empty directory, and `replace` is false.
    """
    path = Path(path)
    if not replace:
        refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    aside.chmod(0o777 & ~_umask())
    try:
        yield aside
        if path.exists() and not replace:
            refuse_existing(path)  # somebody else may have made it meanwhile
            path.rmdir()
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            try:
                path.replace(old / path.name)
                aside.replace(path)
            except BaseException:
                if (old / path.name).exists():
                    (old / path.name).replace(path)
                old.rmdir()
                raise
            shutil.rmtree(old)
        else:
            aside.replace(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def refuse_existing(path: Path) -> None:
    """Raises UserError when `path` is a file or a directory that holds something."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UserError(f"{path} exists already; choose another name, or remove it first.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
