"""One file a fitted model: settings and arrays, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """Reads what `write_model` wrote, or plain settings, `.json`, as BM25 did.

    Raises:
        OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile: it is no such file.
    """
    arrays: dict[str, NDArray[Any]] = {}
    if path.suffix == ".json":
        settings = json.loads(path.read_text(encoding="utf-8"))
    else:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {key: saved[key] for key in saved.files}
        settings = json.loads(arrays.pop(_SETTINGS).tobytes())
    if not isinstance(settings, dict):
        raise ValueError("its settings are not a table")
    return settings, arrays
