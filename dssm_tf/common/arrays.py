"""Numbers from `.npy` and `.npz` files; a header is compared with the file before it is believed.

NumPy allocates what a header claims, 116 TiB from a file of 128 bytes, and takes a ZIP archive of
any kind for a file of arrays.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError

_FORMATS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def map_array(path: Path, mend: str) -> NDArray[Any]:
    """The array of an `.npy` file, memory-mapped.

    Args:
        path: of the file.
        mend: a sentence that says what to do where it cannot be used.

    Raises:
        UserError: the file cannot be read, or is not one array of numbers.
    """
    try:
        with path.open("rb") as file:
            held = _check_header(file, path.stat().st_size)
        mode: Any = "r" if held else None  # nothing cannot be mapped
        found: NDArray[Any] = np.load(path, mmap_mode=mode, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}. {mend}") from None
    except Exception as error:  # NumPy raises almost any kind on what is no array
        raise UserError(f"{path} is no array of numbers: {_short(error)}. {mend}") from None
    return found


def read_arrays(
    path: Path, mend: str, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file, as `numpy.savez` writes them, by name.

    Args:
        path: of the file.
        mend: a sentence that says what to do where it cannot be used.
        names: of the arrays to read, as far as they are there; None for all.

    Raises:
        UserError: the file cannot be read, or holds anything else.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise ValueError("it says that it holds more than it is long")
            return {
                name: _read_member(archive, member)
                for member in archive.infolist()
                if (name := member.filename.removesuffix(".npy")) in (names or [name])
            }
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}. {mend}") from None
    except Exception as error:  # as above, and zipfile's kinds
        raise UserError(f"{path} is no archive of arrays: {_short(error)}. {mend}") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename:.60} is compressed; expected what numpy.savez writes")
    with archive.open(member) as file:
        _check_header(file, member.file_size)
    with archive.open(member) as file:
        found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # the end, where the archive compares its checksum
    return found


def _check_header(file: IO[bytes], size: int) -> int:
    """The bytes that follow a header; raises ValueError where it claims others."""
    version = np.lib.format.read_magic(file)
    if version not in _FORMATS:
        raise ValueError(f"format {version} is not read")
    shape, _, dtype = _FORMATS[version](file)
    if dtype.kind not in "biuf":
        what = "Python objects" if dtype.hasobject else str(dtype)
        raise ValueError(f"it holds {what}, not numbers, and a pickle is not executed")
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed != size - file.tell():
        raise ValueError(
            f"its header says {dtype} {shape}, {claimed:,} bytes, and {size - file.tell():,} follow"
        )
    return claimed


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
