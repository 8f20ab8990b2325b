"""The weights of the original skip-thought release.

- `uni_skip.npz`, `bi_skip.npz`: weights of the GRUs. The reset gate and the update gate, in this
  order, share `encoder_W` (dim_word, 2 dim), `encoder_b` and `encoder_U` (dim, 2 dim). The
  candidate state has `encoder_Wx` (dim_word, dim), `encoder_bx` and `encoder_Ux` (dim, dim). The
  reverse direction of `bi_skip.npz` has the same arrays under `encoder_r_*`.
- `dictionary.txt`: one word per line, including `<eos>` and `UNK`.
- `utable.npy`, `btable.npy`: the word vectors. The first row belongs to the word on the first line,
  and so on.

Keras has one matrix for the update gate, the reset gate and the candidate state, in this order.

A directory contains the uni files, the bi files or both. The pickled options of the release are not
read, because the shapes of the matrices determine all sizes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array, read_arrays
from dssm_tf.common.errors import UserError

Arrays = dict[str, NDArray[Any]]

UNKNOWN = "UNK"
PREFIXES = {"uni": ("encoder",), "bi": ("encoder", "encoder_r")}
_COPY_HINT = "Copy the published weights again."


def read_published(directory: Path, kind: str | None) -> tuple[tuple[str, ...], Arrays]:
    """The dictionary and the encoders of a directory, see `ThoughtEncoders.encoders`.

    Args:
        directory: contains the files that the docstring of this module lists.
        kind: `uni`, `bi` or `combine`; None reads all encoders of the directory.

    Raises:
        UserError: a file is missing, damaged, or does not fit another.
    """
    present = [name for name in PREFIXES if (directory / f"{name}_skip.npz").is_file()]
    needed = present if kind is None else list(PREFIXES) if kind == "combine" else [kind]
    missing = [f"{name}_skip.npz" for name in needed or PREFIXES if name not in present]
    if missing:
        raise UserError(
            f"{directory} has no {' and no '.join(missing)}; give a directory that "
            "SkipThought.save wrote, or the published weights."
        )
    path = directory / "dictionary.txt"
    try:
        dictionary = tuple(line.strip() for line in path.read_text("utf-8").rstrip().split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}. {_COPY_HINT}") from error
    encoders: Arrays = {}
    for name in needed:
        encoders |= _read_encoder(directory, name, len(dictionary))
    return dictionary, encoders


def _read_encoder(directory: Path, name: str, row_count: int) -> Arrays:
    """Reads the encoder `uni` or `bi`, whose word vectors have at least `row_count` rows.

    Raises:
        UserError: a file is missing, damaged, or does not fit another.
    """
    path, table_path = directory / f"{name}_skip.npz", directory / f"{name[0]}table.npy"
    arrays = read_arrays(path, _COPY_HINT)
    table = map_array(table_path, _COPY_HINT)
    weights = []
    try:
        for prefix in PREFIXES[name]:
            for gates, state in (("W", "Wx"), ("U", "Ux"), ("b", "bx")):
                reset, update = np.split(arrays[f"{prefix}_{gates}"], 2, axis=-1)
                weights.append(
                    np.concatenate([update, reset, arrays[f"{prefix}_{state}"]], axis=-1)
                )
            # Keras adds a second bias to the recurrent product; the release has none, so it is 0.
            weights[-1] = np.stack([weights[-1], 0 * weights[-1]])
            shapes = [weight.shape for weight in weights[-3:]]
            (word_dim, _), (units, _), _ = shapes
            if shapes != [(word_dim, 3 * units), (units, 3 * units), (2, 3 * units)]:
                raise ValueError(
                    f"matrices of {prefix} have the shapes {shapes}, which are not those of a GRU"
                )
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} has no GRU: {error}. {_COPY_HINT}") from error
    if table.ndim != 2 or table.shape[1] != word_dim or len(table) < row_count:
        raise UserError(
            f"{table_path} is {table.shape}; the dictionary needs {row_count} rows and {path.name} "
            f"{word_dim} columns. {_COPY_HINT}"
        )
    return encoder_arrays(name, table, weights)


def encoder_arrays(name: str, table: NDArray[Any], weights: list[NDArray[Any]]) -> Arrays:
    """The entries of `ThoughtEncoders.encoders` for one encoder."""
    return {f"{name}_table": table} | {
        f"{name}_{index}": weight for index, weight in enumerate(weights)
    }
