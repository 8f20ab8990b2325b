"""One file a fitted model: arrays, tables of them, words and what JSON can hold; no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dssm_tf.baselines.terms import Terms
from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.files import atomic_write

_SETTINGS = "settings"
_SPARSE = ("data", "indices", "indptr", "shape")


def write_state(path: Path, values: Mapping[str, Any]) -> None:
    """Writes values by name as an `.npz`; its directory is made if missing."""
    settings: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif isinstance(value, dict) and isinstance(next(iter(value.values()), 0), np.ndarray):
            arrays |= {f"{name}/{key}": array for key, array in value.items()}
        elif sparse.issparse(value):
            arrays |= {f"{name}.{part}": np.asarray(getattr(value, part)) for part in _SPARSE}
        else:
            settings[name] = value.words if isinstance(value, Terms) else value
    arrays[_SETTINGS] = np.frombuffer(json.dumps(settings).encode("utf-8"), np.uint8)
    with atomic_write(path, "wb") as file:
        np.savez(file, **arrays)


def read_state(path: Path, mend: str) -> dict[str, Any]:
    """Reads what `write_state` wrote; words come back as a list.

    Args:
        path: of the file.
        mend: a sentence that says what to do if it cannot be used.

    Raises:
        UserError: it is no archive of arrays.
        KeyError, ValueError: the archive holds something else.
    """
    arrays = read_arrays(path, mend)
    values: dict[str, Any] = json.loads(arrays.pop(_SETTINGS).tobytes())
    for name in [key.removesuffix(".indptr") for key in arrays if key.endswith(".indptr")]:
        data, indices, indptr, shape = (arrays.pop(f"{name}.{part}") for part in _SPARSE)
        values[name] = sparse.csr_matrix((data, indices, indptr), shape=tuple(shape))
    for key in [key for key in arrays if "/" in key]:
        name, _, part = key.partition("/")
        values.setdefault(name, {})[part] = arrays.pop(key)
    return values | arrays
