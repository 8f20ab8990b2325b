"""Weights in the layout of the original skip-thought release, read and written.

- `uni_skip.npz`, `bi_skip.npz`: of the reset and the update gate, side by side, `encoder_W`
  (dim_word, 2 dim), `encoder_b`, `encoder_U` (dim, 2 dim); of the state `encoder_Wx`
  (dim_word, dim), `encoder_bx`, `encoder_Ux` (dim, dim); `encoder_r_*` of the reverse direction.
- `uni_skip.npz.pkl`, `bi_skip.npz.pkl`: options, pickled; `dim`, `dim_word`, `encoder` are used.
- `dictionary.txt`: a word a line, `<eos>` and `UNK` among them.
- `utable.npy`, `btable.npy`: the word vectors, row `i` of the word on line `i`.

A directory holds the uni files, the bi files or both. What this package trains has the same
layout, but options as JSON (`uni_skip.npz.json`), among them `reset`: see `model.GRUCell`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.skip_thought import RESETS
from dssm_tf.baselines.skip_thought.option_pickle import read_options
from dssm_tf.baselines.skip_thought.vectors import Encoder, ThoughtVectors
from dssm_tf.common.arrays import map_array, read_arrays
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.text.rules import Rules

KINDS = ("uni", "bi", "combine")
_DICTIONARY = "dictionary.txt"
_PREFIXES = ("encoder", "encoder_r")
_MOST_UNITS = 100_000
_CHECKSUMS = "skip_thought.sha256"
_KEEP_ACCENTS = "keep_accents"  # of the options
_AGAIN = "Train it again, or copy the published weights again."


def load_vectors(directory: Path | str, kind: str | None = None) -> ThoughtVectors:
    """Loads an encoder of texts.

    Args:
        directory: holds the files of the module's table.
        kind: `uni`, `bi` or `combine`; None takes all there is.

    Raises:
        UserError: a file is missing, damaged, or does not fit another.
        ValueError: unknown kind.
    """
    if kind not in (None, *KINDS):
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}.")
    directory = Path(directory)
    there = [name for name in ("uni", "bi") if (directory / f"{name}_skip.npz").is_file()]
    if (directory / _CHECKSUMS).exists():  # the published weights have none
        check_files(directory, None, _AGAIN, _CHECKSUMS)
    wanted = there if kind is None else ["uni", "bi"] if kind == "combine" else [kind]
    missing = [f"{name}_skip.npz" for name in wanted if name not in there]
    if missing or not wanted:
        raise UserError(
            f"{directory} holds no {' and no '.join(missing or ['uni_skip.npz', 'bi_skip.npz'])}; "
            "give a directory that `dssm skip-thought train` wrote, or the published weights."
        )
    rows = _dictionary(directory / _DICTIONARY)
    encoders = [_encoder(directory, name, max(rows.values())) for name in wanted]
    options, _ = _options(directory / f"{wanted[0]}_skip.npz")
    return ThoughtVectors(
        rows, encoders, Rules(keep_accents=bool(options.get(_KEEP_ACCENTS, True)))
    )


def write_vectors(directory: Path, vectors: ThoughtVectors) -> None:
    """Writes encoders, word vectors and dictionary; `load_vectors` reads them back.

    Args:
        directory: made if missing; files of the same names are replaced one by one.
        vectors: what to write.
    """
    lines = [""] * (max(vectors.rows.values()) + 1)
    for word, row in vectors.rows.items():
        lines[row] = word
    with atomic_write(directory / _DICTIONARY) as file:
        file.write("\n".join(lines) + "\n")
    names = [_DICTIONARY]
    for encoder in vectors.encoders:
        weights = directory / f"{encoder.name}_skip.npz"
        arrays: dict[str, NDArray[np.float32]] = {}
        directions = encoder.layer.directions()
        for prefix, gru in zip(_PREFIXES, directions, strict=False):
            kernel, bias = gru.input_projection.get_weights()
            gates, state = gru.recurrence.get_weights()
            units = len(state)
            arrays |= {
                f"{prefix}_W": kernel[:, : 2 * units],
                f"{prefix}_b": bias[: 2 * units],
                f"{prefix}_Wx": kernel[:, 2 * units :],
                f"{prefix}_bx": bias[2 * units :],
                f"{prefix}_U": gates,
                f"{prefix}_Ux": state,
            }
        options = {
            "dim": units,
            "dim_word": int(encoder.table.shape[1]),
            "encoder": "gru",
            "reset": directions[0].recurrence.cell.reset,
            _KEEP_ACCENTS: vectors.rules.keep_accents,
        }
        with atomic_write(weights, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle
        with atomic_write(_table_path(directory, encoder.name), "wb") as file:
            np.save(file, encoder.table)
        with atomic_write(_json_path(weights)) as file:
            json.dump(options, file, indent=2)
        written = (weights, _table_path(directory, encoder.name), _json_path(weights))
        names += [path.name for path in written]
    write_checksums(directory, names, _CHECKSUMS)


def _dictionary(path: Path) -> dict[str, int]:
    """The row of each word; of repeats the last counts, as in the release's own reader."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start + 1}.") from error
    rows = {word: row for row, line in enumerate(lines) if (word := line.strip())}
    if not rows:
        raise UserError(f"{path} holds no word; expected one a line.")
    return rows


def _encoder(directory: Path, name: str, last_row: int) -> Encoder:
    weights = directory / f"{name}_skip.npz"
    options, where = _options(weights)
    units, dim = (_size(options, key, where) for key in ("dim", "dim_word"))
    if options.get("encoder", "gru") != "gru":
        raise UserError(f"{where}: the encoder is {options['encoder']!r:.60}; expected 'gru'.")
    table = _table(_table_path(directory, name), dim, last_row)
    # Only now: Keras takes seconds to import, and the files are found good before.
    from dssm_tf.baselines.skip_thought.model import ThoughtEncoder

    reset = options.get("reset", "after")
    if reset not in RESETS:
        raise UserError(f"{where}: reset is {reset!r:.60}; expected one of {', '.join(RESETS)}.")
    layer = ThoughtEncoder(dim, units, bidirectional=name == "bi", reset=reset, seed=0)
    arrays = _arrays(weights, _PREFIXES[: len(layer.directions())], units, dim)
    for prefix, gru in zip(_PREFIXES, layer.directions(), strict=False):
        part = {key: arrays[f"{prefix}_{key}"] for key in ("W", "b", "U", "Wx", "bx", "Ux")}
        gru.input_projection.set_weights(
            [np.hstack([part["W"], part["Wx"]]), np.hstack([part["b"], part["bx"]])]
        )
        gru.recurrence.set_weights([part["U"], part["Ux"]])
    return Encoder(name, table, layer)


def _options(weights: Path) -> tuple[Mapping[str, Any], Path]:
    """Options of a weights file, and the file they come from."""
    pickled = weights.with_name(f"{weights.name}.pkl")
    written = _json_path(weights)
    if not written.exists():
        if not pickled.exists():
            raise UserError(
                f"{pickled} does not exist, nor does {written.name}; {weights.name} needs one of "
                "them for its options."
            )
        return read_options(pickled), pickled
    options = read_json(written, _AGAIN)
    if not isinstance(options, dict):
        raise UserError(f"{written} holds a {type(options).__name__}; expected an object.")
    return options, written


def _table_path(directory: Path, name: str) -> Path:
    return directory / f"{name[0]}table.npy"


def _json_path(weights: Path) -> Path:
    return weights.with_name(f"{weights.name}.json")


def _size(options: Mapping[str, Any], key: str, where: Path) -> int:
    value = options.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_UNITS:
        raise UserError(
            f"{where}: {key} is {value!r:.60}; expected a whole number from 1 to {_MOST_UNITS}."
        )
    return value


def _table(path: Path, dim: int, last_row: int) -> NDArray[np.float32]:
    table = map_array(path, _AGAIN)
    if table.ndim != 2 or table.dtype.kind != "f":
        raise UserError(
            f"{path}: {table.dtype} {table.shape}; expected a matrix of floats, a row a word."
        )
    if table.shape[1] != dim or table.shape[0] <= last_row:
        raise UserError(
            f"{path} is {table.shape}; the dictionary needs {last_row + 1} rows and the options "
            f"say {dim} columns (dim_word)."
        )
    return table


def _arrays(
    path: Path, prefixes: Sequence[str], units: int, dim: int
) -> dict[str, NDArray[np.float32]]:
    """The encoder's matrices, of the shapes that the options give."""
    expected = {
        "W": (dim, 2 * units),
        "b": (2 * units,),
        "U": (units, 2 * units),
        "Wx": (dim, units),
        "bx": (units,),
        "Ux": (units, units),
    }
    arrays = {}
    wanted = [f"{prefix}_{key}" for prefix in prefixes for key in expected]
    archive = read_arrays(path, _AGAIN, wanted)
    for prefix in prefixes:
        for key, shape in expected.items():
            name = f"{prefix}_{key}"
            if name not in archive:
                raise UserError(f"{path} lacks {name}. {_AGAIN}")
            array = archive[name]
            if array.shape != shape or array.dtype.kind != "f":
                raise UserError(
                    f"{path}: {name} is {array.dtype} {array.shape}; the options ask for "
                    f"floats of the shape {shape}."
                )
            arrays[name] = array.astype(np.float32)
    bad = next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
    if bad is not None:
        raise UserError(f"{path}: {bad} holds a value that is not finite.")
    return arrays
