"""Names and shapes of the arrays that a compact model with the score cosine must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

WeightShapes = dict[str, tuple[int, ...]]

_KERNEL, _SCALE = "hashing/kernel", "hashing/scale"
_SIZES = {
    "words": ("units",), "dssm": (), "clsm": ("window", "features"), "rnn": ("hidden",),
    "lstm": ("cells",), "bilstm": ("cells",),
}  # fmt: skip
"""The settings of each tower that are single sizes: whole numbers, at least 1."""
_SWITCHES = ("peepholes", "forget_gate")
_LARGEST_SIZE = 1 << 31


def tower_problem(tower: Mapping[str, Any]) -> str | None:
    """Describes a missing or impossible setting of a known tower; None if all are valid."""
    name = tower["name"]
    for key in _SIZES[name]:
        if not _is_size(tower.get(key)):
            return f"tower.{key} is {tower.get(key)!r:.60}; expected a whole number, at least 1"
    if name == "clsm" and tower["window"] % 2 == 0:
        return f"tower.window is {tower['window']}; expected an odd number"
    if name in ("dssm", "clsm"):
        widths = tower.get("widths")
        if not isinstance(widths, list) or not widths or not all(map(_is_size, widths)):
            return f"tower.widths is {widths!r:.60}; expected whole numbers, at least 1"
    if name in ("lstm", "bilstm"):
        for key in _SWITCHES:
            if not isinstance(tower.get(key), bool):
                return f"tower.{key} is {tower.get(key)!r:.60}; expected true or false"
    return None


def tower_shapes(tower: Mapping[str, Any], row_count: int) -> WeightShapes:
    """The arrays of a tower by their Keras names; see `dssm_tf.runtime.towers`.

    Args:
        tower: valid settings, see `tower_problem`.
        row_count: number of ids, including the padding id.
    """
    name = tower["name"]
    if name == "words":
        return {_KERNEL: (row_count, tower["units"])}
    if name == "dssm":
        first, *_ = widths = tower["widths"]
        shapes: WeightShapes = {_KERNEL: (row_count, first), "bias": (first,)}
        for i, (inputs, outputs) in enumerate(pairwise(widths), start=1):
            shapes[f"semantic_{i}/kernel"] = (inputs, outputs)
            shapes[f"semantic_{i}/bias"] = (outputs,)
        return shapes
    if name == "clsm":
        window, features = tower["window"], tower["features"]
        shapes = {_KERNEL: (row_count, window * features)}
        if window > 1:
            shapes["convolution/padding_word"] = (window - 1, features)
        for i, (inputs, outputs) in enumerate(pairwise([features, *tower["widths"]]), start=1):
            shapes[f"semantic_{i}/kernel"] = (inputs, outputs)
        return shapes
    directions = ("left_to_right", "right_to_left") if name == "bilstm" else ("recurrence",)
    cells, blocks = (tower["hidden"], 1) if name == "rnn" else (tower["cells"], 3)
    blocks += bool(name != "rnn" and tower["forget_gate"])
    shapes = {_KERNEL: (row_count, len(directions) * blocks * cells)}
    for direction in directions:
        shapes[f"{direction}/recurrent_kernel"] = (cells, blocks * cells)
        shapes[f"{direction}/bias"] = (blocks * cells,)
        if name != "rnn" and tower["peepholes"]:
            shapes[f"{direction}/peephole_kernel"] = (blocks - 1, cells)
    return shapes


def weights_problem(
    weights: Mapping[str, NDArray[Any]],
    tower: Mapping[str, Any],
    tower_names: Sequence[str],
    row_count: int,
) -> str | None:
    """Describes the first problem of the arrays in weights.npz; None if they are valid.

    Args:
        weights: arrays by tower and Keras name, such as `query_tower/hashing/kernel`.
        tower: valid settings, see `tower_problem`.
        tower_names: `query_tower`, and `title_tower` unless the towers are shared.
        row_count: number of ids, including the padding id.
    """
    expected = {
        f"{tower_name}/{name}": shape
        for tower_name in tower_names
        for name, shape in tower_shapes(tower, row_count).items()
    }
    for tower_name in tower_names:
        kernel = weights.get(f"{tower_name}/{_KERNEL}")
        if kernel is not None and kernel.dtype == np.int8:
            expected[f"{tower_name}/{_SCALE}"] = (row_count, 1)
    if missing := [name for name in expected if name not in weights]:
        return f"it has no array {missing[0]}"
    for name, array in weights.items():
        if name not in expected:
            return f"it has the array {name[:60]!r}, which this model does not use"
        if array.shape != expected[name]:
            return f"{name} is of shape {array.shape}; expected {expected[name]}"
        if array.dtype.kind != "f" and not (array.dtype == np.int8 and name.endswith(_KERNEL)):
            return f"{name} is {array.dtype}; expected floats"
    return None


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value < _LARGEST_SIZE
