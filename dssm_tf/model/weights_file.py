"""Checks the weights of a run before memory is taken for them: `model.weights.h5`."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.runtime.weight_shapes import tower_problem, tower_shapes

_HINT = "Train the run again."


def check_weights_file(path: Path, config: Config, vocabulary_size: int) -> None:
    """Checks that a file of weights is large enough for its configuration, and has all its arrays.

    They are float32; those of a custom tower may have other types. HDF5 can compress arrays, and
    can refer to other files; Keras writes neither.

    Args:
        path: the file.
        config: the configuration of the run.
        vocabulary_size: number of n-gram ids, padding not counted.

    Raises:
        UserError: the model of the configuration is larger than the file, or an array has another
            type or is not entirely in the file.
    """
    import h5py

    size, expected = path.stat().st_size, _matrix_bytes(config, vocabulary_size)
    if expected > size:
        raise UserError(
            f"{path} has {size:,} bytes; its configuration needs {expected:,} for its weights. "
            f"{_HINT}"
        )
    try:
        with h5py.File(path) as file:
            problem = _array_problem(file, size, has_any_type=config.tower.name == "custom")
    except MemoryError:
        raise
    except Exception as error:  # HDF5 raises exceptions of almost any class
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} cannot be loaded ({reason}). {_HINT}") from None
    if problem is not None:
        raise UserError(f"{path}: {problem}. {_HINT}")


def _matrix_bytes(config: Config, vocabulary_size: int) -> int:
    """The size of the matrices of towers and text vectors in float32, in bytes.

    Those of custom towers count as 0.
    """
    tower = config.model_dump(mode="json")["tower"]
    if tower["name"] == "custom":
        return 0
    if problem := tower_problem(tower):
        raise UserError(f"{problem}. {_HINT}")
    shapes = tower_shapes(tower, 1 + vocabulary_size)
    towers = (1 if config.shared_towers else 2) * sum(map(prod, shapes.values()))
    text_units = config.score.shape_settings().get("text_units", 0)
    return 4 * (towers + (1 + vocabulary_size) * int(text_units))


def _array_problem(file: Any, size: int, has_any_type: bool) -> str | None:
    """Describes an array of the wrong type or not entirely in an HDF5 file; None if all are valid.

    Args:
        file: the opened file, an `h5py.File`.
        size: the number of its bytes.
        has_any_type: whether arrays may have other types than float32.
    """
    import h5py

    groups, visited, total = [file], set(), 0
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                return f"{name[:60]!r} is a link"
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in visited:
                return f"{name[:60]!r} is in it twice"
            visited.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
            elif item.nbytes > item.id.get_storage_size() or item.external or item.is_virtual:
                return f"{item.name[:60]!r} is compressed, or is in another file"
            elif item.dtype != np.float32 and not has_any_type:
                return f"{item.name[:60]!r} is {item.dtype!s:.20}; expected float32"
            else:
                total += item.nbytes
    return None if total <= size else f"its arrays need {total:,} bytes; it has {size:,}"
