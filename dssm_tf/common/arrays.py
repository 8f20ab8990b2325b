"""`.npy` and `.npz` files of numbers. A bad file is one clear line; no pickle is read.

`write_array` writes them through Python: where `np.save` writes into a file directly, it raises an
OSError without `errno` on a full disk. (`np.savez` goes through a ZIP file and needs no help.)
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
    """Writes an `.npy` file.

    Raises:
        OSError: the file cannot be written; `errno` says why.
    """
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with atomic_write(path, "wb") as file:
        file.write(content.getbuffer())


def map_array(path: Path, mend: str) -> NDArray[Any]:
    """The array of an `.npy` file, memory-mapped.

    Args:
        path: of the file.
        mend: a sentence that says what to do if it cannot be used.

    Raises:
        UserError: the file cannot be read, or is not one array of numbers.
    """
    with _readable(path, "array of numbers", mend):
        return _numbers(np.lib.format.open_memmap(path, mode="r"))


def read_arrays(path: Path, mend: str) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file, as `numpy.savez` writes them, by name.

    Args:
        path: of the file.
        mend: a sentence that says what to do if it cannot be used.

    Raises:
        UserError: the file cannot be read, or holds anything else.
    """
    with _readable(path, "archive of arrays", mend), path.open("rb") as file:
        archive = np.lib.npyio.NpzFile(file, allow_pickle=False)
        return {name: _numbers(array) for name, array in archive.items()}


def _numbers(array: Any) -> NDArray[Any]:
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
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is no {what}: {reason}. {mend}") from None
