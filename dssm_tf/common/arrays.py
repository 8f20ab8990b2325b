"""Reads and writes `.npy` and `.npz` files of numbers. Errors are one line; pickles are rejected.

`write_array` saves into memory and writes the bytes from Python. When `np.save` writes into a file
itself and the disk is full, its OSError has no `errno`. `np.savez` does not have this problem.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Writes an `.npy` file atomically.

    Raises:
        OSError: the file cannot be written; `errno` has the reason.
    """
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with atomic_write(path, "wb") as file:
        file.write(content.getbuffer())


def map_array(path: Path, hint: str) -> NDArray[Any]:
    """Memory-maps the array of an `.npy` file.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.

    Raises:
        UserError: the file cannot be read, or is not an array of numbers.
    """
    with _explained_errors(path, "an array of numbers", hint):
        return _numbers(np.lib.format.open_memmap(path, mode="r"))


def read_arrays(path: Path, hint: str) -> dict[str, NDArray[Any]]:
    """Reads the arrays of an `.npz` file by name.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.

    Raises:
        UserError: the file cannot be read, or has anything but arrays of numbers.
    """
    with _explained_errors(path, "an archive of arrays", hint), path.open("rb") as file:
        archive = np.lib.npyio.NpzFile(file, allow_pickle=False)
        return {name: _numbers(array) for name, array in archive.items()}


def _numbers(array: Any) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError(f"it contains {getattr(array, 'dtype', 'bytes')}, not numbers")
    return array


@contextmanager
def _explained_errors(path: Path, description: str, hint: str) -> Iterator[None]:
    """Turns every error of the block into a UserError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. {hint}") from None
    except Exception as error:  # NumPy and zipfile raise almost any kind
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is not {description}: {reason}. {hint}") from None
