"""One file a fitted model: settings and arrays, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.files import atomic_write

Settings = Mapping[str, Any]
"""What JSON can hold, by name."""

Arrays = Mapping[str, NDArray[Any]]
"""Numbers, by name."""

_SETTINGS = "settings"


def write_model(path: Path, settings: Settings, arrays: Arrays) -> None:
    """Writes an `.npz`; its directory is made if missing."""
    text = np.frombuffer(json.dumps(dict(settings)).encode("utf-8"), dtype=np.uint8)
    contents: dict[str, Any] = {_SETTINGS: text, **arrays}
    with atomic_write(path, "wb") as file:
        np.savez(file, **contents)


def read_model(path: Path) -> tuple[Settings, Arrays]:
    """Reads what `write_model` wrote.

    Raises:
        UserError: it is no archive of arrays.
        KeyError, RecursionError, ValueError: the archive holds no model.
    """
    arrays = read_arrays(path, "Fit and save it again.")
    settings = json.loads(arrays.pop(_SETTINGS).tobytes())
    if not isinstance(settings, dict):
        raise ValueError("its settings are not a table")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name:.60} holds a number that is not finite")
    return settings, arrays


def numbers(
    arrays: Arrays, name: str, *shape: int | None, dtype: Any = np.float64, least: float = -np.inf
) -> NDArray[Any]:
    """An array of a model, as those need it who index it without looking.

    Args:
        arrays: what `read_model` gave.
        name: of the array.
        shape: what it must have, None for any length.
        dtype: what it must have.
        least: none of its numbers may be less.

    Raises:
        KeyError: there is none of that name.
        ValueError: it is another one.
    """
    found = arrays[name]
    fits = found.ndim == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, found.shape, strict=True)
    )
    if not fits or found.dtype != dtype:
        raise ValueError(
            f"{name} is {found.dtype} {found.shape}; expected {np.dtype(dtype)} {shape}"
        )
    if found.size and found.min() < least:
        raise ValueError(f"{name} holds {found.min()}; expected at least {least}")
    return found


def table_arrays(name: str, table: sparse.csr_matrix) -> dict[str, NDArray[Any]]:
    """A sparse table as three arrays, for `table_of`."""
    return {
        f"{name}_data": table.data,
        f"{name}_indices": table.indices,
        f"{name}_indptr": table.indptr,
    }


def table_of(name: str, arrays: Arrays, shape: tuple[int, int]) -> sparse.csr_matrix:
    """The table of numbers of at least 0 that `table_arrays` took apart.

    Raises:
        KeyError: a part is missing.
        ValueError: the parts do not fit; SciPy would read and write outside of them.
    """
    data = numbers(arrays, f"{name}_data", None, least=0)
    indices, ends = (arrays[f"{name}_{part}"] for part in ("indices", "indptr"))
    for part in (indices, ends):
        if part.ndim != 1 or part.dtype not in (np.int32, np.int64):
            raise ValueError(f"the indices of {name} are {part.dtype} {part.shape}")
    table = sparse.csr_matrix((data, indices, ends), shape=shape)
    table.check_format(full_check=True)
    return table


def texts_of(settings: Settings, name: str) -> list[str]:
    """A list of texts.

    Raises:
        KeyError: there is none of that name.
        ValueError: it is something else.
    """
    found = settings[name]
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(f"{name} is {type(found).__name__}; expected a list of text")
    return found
