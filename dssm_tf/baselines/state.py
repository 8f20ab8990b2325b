"""Saves a fitted model in one `.npz` file: its parameters, and the dataclass that it learned.

Nothing is pickled. Numbers and texts are stored as JSON, and an array under its field's name. A
field with several arrays, such as a sparse matrix, stores each under `field/part`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.terms import Terms
from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.files import atomic_write

LearnedT = TypeVar("LearnedT")

_JSON = "json"
_PARAMETERS, _LEARNED = "parameters", "learned"
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


def write_state(path: Path, parameters: Mapping[str, Any], learned: Any) -> None:
    """Writes parameters and the learned dataclass; creates the directory if it is missing."""
    values = _flat(learned)
    arrays: dict[str, Any] = {
        name: value for name, value in values.items() if isinstance(value, np.ndarray)
    }
    plain = {name: value for name, value in values.items() if name not in arrays}
    text = json.dumps({_PARAMETERS: dict(parameters), _LEARNED: plain})
    arrays[_JSON] = np.frombuffer(text.encode("utf-8"), np.uint8)
    with atomic_write(path, "wb") as file:
        np.savez(file, **arrays)


def read_state(path: Path, hint: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads what `write_state` wrote.

    Args:
        path: path of the file.
        hint: the last sentence of an error, which says how to replace an unusable file.

    Returns:
        Parameters, and values for `restore`.

    Raises:
        UserError: the file is not an archive of arrays.
        KeyError, ValueError: `write_state` did not write the archive.
    """
    arrays = read_arrays(path, hint)
    plain = json.loads(arrays.pop(_JSON).tobytes())
    return plain[_PARAMETERS], plain[_LEARNED] | arrays


def restore(kind: type[LearnedT], values: Mapping[str, Any], prefix: str = "") -> LearnedT:
    """Builds a dataclass from the values that `read_state` returned.

    Args:
        kind: the type of the dataclass; the types of its fields decide how the values are read.
        values: values by field name.
        prefix: prefix of the names, for a dataclass within a dataclass.

    Raises:
        KeyError: a value is missing.
    """
    types = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _restore(types[name], values, prefix + name) for name in names})


def check_arrays(
    learned: Any, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> None:
    """Checks the arrays of a dataclass.

    Args:
        learned: the dataclass.
        shapes: for each field that is an array, the names of its dimensions. For a dataclass within
            the dataclass, the key is `field/part`. Dimensions of a dataclass with the same name
            must have the same size; an inner dataclass has its own names. A dimension that is named
            after a field with terms or texts must have the length of that field.
        sizes: sizes of other dimensions, by name; not for inner dataclasses.

    Raises:
        ValueError: a number is not finite, an index of a sparse matrix is out of range, or a shape
            is wrong.
    """
    sizes_by_dimension = dict(sizes)
    for field in fields(learned):
        value = getattr(learned, field.name)
        is_texts = isinstance(value, tuple) and all(isinstance(part, str) for part in value)
        if isinstance(value, Terms) or is_texts:
            sizes_by_dimension[field.name] = len(value)
        if sparse.issparse(value):
            value.check_format(full_check=True)
        if is_dataclass(value):
            start = f"{field.name}/"
            parts = {
                name.removeprefix(start): dimensions
                for name, dimensions in shapes.items()
                if name.startswith(start)
            }
            check_arrays(value, parts, {})
    for name, array in _flat(learned).items():
        is_float = isinstance(array, np.ndarray) and array.dtype.kind == "f"
        if is_float and not np.isfinite(array).all():
            raise ValueError(f"{name} has a number that is not finite")
    for name, dimensions in shapes.items():
        if "/" in name:
            continue
        shape = np.shape(getattr(learned, name))
        # The first array with a dimension sets its size. With zeros appended, an array with too few
        # axes has another shape than expected, and is refused.
        axes = (*shape, *[0] * len(dimensions))
        expected = tuple(
            sizes_by_dimension.setdefault(dimension, size)
            for dimension, size in zip(dimensions, axes, strict=False)
        )
        if shape != expected:
            raise ValueError(f"{name} has the shape {shape}; expected {expected}")


def _flat(learned: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a dataclass as arrays and JSON values, by name."""
    values: dict[str, Any] = {}
    for field in fields(learned):
        name, value = prefix + field.name, getattr(learned, field.name)
        if is_dataclass(value):
            values |= _flat(value, f"{name}/")
        elif isinstance(value, Terms):
            values[name] = value.words
        elif sparse.issparse(value):
            values |= {f"{name}/{part}": np.asarray(getattr(value, part)) for part in _SPARSE_PARTS}
        elif isinstance(value, dict):
            values |= {f"{name}/{key}": array for key, array in value.items()}
        elif _is_array_tuple(value):
            values |= {f"{name}/{index}": array for index, array in enumerate(value)}
        else:
            values[name] = value
    return values


def _restore(annotation: Any, values: Mapping[str, Any], name: str) -> Any:
    """Builds a field's value as the type annotation of the field requires."""
    kind = get_origin(annotation) or annotation
    if isinstance(annotation, type) and is_dataclass(annotation):
        return restore(annotation, values, f"{name}/")
    if kind is sparse.csr_matrix:
        data, indices, indptr, shape = (values[f"{name}/{part}"] for part in _SPARSE_PARTS)
        return sparse.csr_matrix((data, indices, indptr), shape=tuple(shape))
    if kind is dict:
        return _parts(values, name)
    if kind is tuple:
        if get_origin(get_args(annotation)[0]) is np.ndarray:
            return tuple(_parts(values, name).values())
        return tuple(values[name])
    return kind(values[name]) if issubclass(kind, Terms) else values[name]


def _parts(values: Mapping[str, Any], name: str) -> dict[str, NDArray[Any]]:
    """The values stored as `name/part`, by part."""
    start = f"{name}/"
    return {key[len(start) :]: value for key, value in values.items() if key.startswith(start)}


def _is_array_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(part, np.ndarray) for part in value)
