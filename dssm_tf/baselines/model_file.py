"""One file a fitted model: settings and arrays, no pickle."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

_SETTINGS = "settings"


def write_model(
    directory: Path | str,
    name: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Writes `NAME.npz` into a directory, made if missing.

    Args:
        directory: where to.
        name: of the model.
        settings: what JSON can hold.
        arrays: numbers, by name.
    """
    text = np.frombuffer(json.dumps(dict(settings)).encode("utf-8"), dtype=np.uint8)
    contents: dict[str, Any] = {_SETTINGS: text, **arrays}
    with atomic_write(Path(directory) / f"{name}.npz", "wb") as file:
        np.savez(file, **contents)


def read_model(directory: Path | str, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Reads the settings and arrays that `write_model` wrote.

    Raises:
        UserError: the directory holds no such file, or a broken one.
    """
    path = Path(directory) / f"{name}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {key: saved[key] for key in saved.files}
        settings = json.loads(arrays.pop(_SETTINGS).tobytes())
        if not isinstance(settings, dict):
            raise ValueError("its settings are not a table")
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise broken(path, name, error) from error
    return settings, arrays


def broken(path: Path, name: str, error: Exception) -> UserError:
    """The error of a file that holds no saved model."""
    return UserError(f"{path} holds no saved {name} model: {error}. Fit and save it again.")
