"""Numbers from `.npy` and `.npz` files; anything else is one clear line, and no pickle is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError


def map_array(path: Path, mend: str) -> NDArray[Any]:
    """The array of an `.npy` file, memory-mapped.

    Args:
        path: of the file.
        mend: a sentence that says what to do if it cannot be used.

    Raises:
        UserError: the file cannot be read, or is not one array of numbers.
    """
    with _readable(path, "array of numbers", mend):
        found: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        return _numbers(found)


def read_arrays(
    path: Path, mend: str, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file, as `numpy.savez` writes them, by name.

    Args:
        path: of the file.
        mend: a sentence that says what to do if it cannot be used.
        names: of the arrays to read, as far as they are there; None for all.

    Raises:
        UserError: the file cannot be read, or holds anything else.
    """
    with _readable(path, "archive of arrays", mend), path.open("rb") as file:
        archive = np.lib.npyio.NpzFile(file, allow_pickle=False)
        found = [name for name in archive.files if name in (names or [name])]
        return {name: _numbers(archive[name]) for name in found}


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError(f"it holds {getattr(array, 'dtype', 'bytes')}, not numbers")
    return array


@contextmanager
def _readable(path: Path, what: str, mend: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. {mend}") from None
    except Exception as error:  # NumPy and zipfile raise almost any kind
        raise UserError(f"{path} is no {what}: {_short(error)}. {mend}") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
