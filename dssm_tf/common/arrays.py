"""Reads and writes `.npy` and `.npz` files of numbers. Errors are one line; pickles are rejected.

`write_array` saves into memory and writes the bytes from Python. When `np.save` writes into a file
itself and the disk is full, its OSError has no `errno`. `np.savez` does not have this problem.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write, check_regular_file


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Writes an `.npy` file atomically.

    Raises:
        OSError: the file cannot be written; `errno` has the reason.
    """
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with atomic_write(path, "wb") as file:
        file.write(content.getbuffer())


def write_arrays(file: IO[bytes], arrays: Iterable[Any]) -> None:
    """Writes an `.npz` archive as `np.savez` does, with only one array in memory at a time.

    Args:
        file: an open file.
        arrays: arrays, or variables that NumPy can convert; each is read when it is written.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for index, array in enumerate(arrays):
            with archive.open(f"arr_{index}.npy", "w", force_zip64=True) as member:
                _write_member(member, np.asarray(array, order="C"))


def _write_member(member: IO[bytes], array: NDArray[Any]) -> None:
    """Writes a contiguous array as `np.lib.format.write_array` does, but without a second copy."""
    if array.dtype.hasobject:
        raise ValueError(f"expected an array of numbers, received {array.dtype}")
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(member, header)
    member.write(array.reshape(-1).view(np.uint8).data)


def map_array(path: Path, hint: str, mapped: bool = True) -> NDArray[Any]:
    """Memory-maps or reads the array of an `.npy` file.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.
        mapped: False to read the file into memory. A process with a memory map ends if the file is
            truncated.

    Raises:
        UserError: the file cannot be read, or is not an array of numbers.
    """
    check_regular_file(path, hint)
    with _explained_errors(path, "an array of numbers", hint):
        with path.open("rb") as file:
            header = _read_header(file, path.stat().st_size)
            start = file.tell()
            if not mapped:
                return _read_numbers(file, header, path.stat().st_size - start)
        order: Literal["F", "C"] = "F" if header.fortran else "C"
        return np.memmap(path, header.dtype, "r", start, header.shape, order)


def read_arrays(path: Path, hint: str) -> dict[str, NDArray[Any]]:
    """Reads the arrays of an `.npz` file by name.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.

    Raises:
        UserError: the file cannot be read, or has anything but arrays of numbers.
    """
    return dict(read_one_by_one(path, hint))


def read_one_by_one(path: Path, hint: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Reads the arrays of an `.npz` file one after another, each when the iterator reaches it.

    Args:
        path: see `read_arrays`.
        hint: see `read_arrays`.

    Yields:
        The name of an array, and the array.
    """
    with _explained_errors(path, "an archive of arrays", hint), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size, unpacked = path.stat().st_size, sum(member.file_size for member in members)
        if unpacked > size:  # a small file must not fill the memory
            raise ValueError(
                f"its {size:,} bytes would become {unpacked:,}; archives of this package are not "
                "compressed"
            )
        names = [member.filename.removesuffix(".npy") for member in members]
        if len({*names}) < len(names):
            raise ValueError("two arrays have the same name")
        for name, member in zip(names, members, strict=True):
            yield name, _read_member(archive, member)


class _Header(NamedTuple):
    """The description of an array before its numbers."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


def _read_header(file: IO[bytes], size: int) -> _Header:
    """Reads a header; raises ValueError unless numbers of exactly the rest of the file follow.

    Args:
        file: a file, at its start.
        size: the size of the file in bytes.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it is of version {version}; expected 1.0 or 2.0")
    parse_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    try:
        header = _Header(*parse_header(file))
    except (MemoryError, RecursionError):  # of Python's parser
        raise ValueError("its header is nested too deeply") from None
    if header.dtype.kind not in "biuf":
        raise ValueError(f"it contains {header.dtype}, not numbers")
    expected, received = prod(header.shape) * header.dtype.itemsize, size - file.tell()
    if min(header.shape, default=0) < 0 or expected != received:
        raise ValueError(f"its shape {header.shape} needs {expected} bytes; it has {received}")
    return header


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Reads one array of an archive."""
    with archive.open(member) as opened:
        header = _read_header(opened, member.file_size)
        return _read_numbers(opened, header, member.file_size - opened.tell())


def _read_numbers(opened: IO[bytes], header: _Header, size: int) -> NDArray[Any]:
    """Reads the `size` bytes after a header as an array."""
    file = cast("zipfile.ZipExtFile", opened)  # has `readinto`
    content = bytearray(size)
    view, end = memoryview(content), 0
    while count := file.readinto(view[end:]):
        end += count
    if end < len(content):
        raise ValueError(f"{opened.name} ends after {end} of {len(content)} bytes")
    array = np.frombuffer(content, header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


@contextmanager
def _explained_errors(path: Path, description: str, hint: str) -> Iterator[None]:
    """Turns every error of the block into a UserError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. {hint}") from None
    except MemoryError:
        raise  # the machine has too little for a good file
    except Exception as error:  # NumPy and zipfile raise almost any kind
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is not {description}: {reason}. {hint}") from None
