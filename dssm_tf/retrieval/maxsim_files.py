"""Reads and checks the files of a search index of a model with the score maxsim.

index.json      `format`; `score`, which is maxsim; `similar_words` and `rescored`, see
                `dssm_tf.retrieval.maxsim_index`
titles.arrow    `doc_id` and `title` of each entry of the corpus, in order
words.arrow     `word`: the distinct words of the titles; a word's position is its row
arrays/         one `.npy` file for each field of `Arrays`
model/          the model in its compact form
clicked_titles.npy
                only with remembered clicks, see `dssm_tf.retrieval.clicked_titles`
SHA256SUMS
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.arrays import map_array, write_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import check_regular_file
from dssm_tf.common.json_files import read_json
from dssm_tf.retrieval.array_checks import array_problem
from dssm_tf.retrieval.arrow_files import has_compressed_batches
from dssm_tf.retrieval.index_arrays import Arrays

SETTINGS, WORDS, ARRAYS = "index.json", "words.arrow", "arrays"

FORMAT = 3
"""Increased when older versions of this package cannot read the files."""

REBUILD_HINT = "Build it again: dssm index --model RUN --corpus CORPUS --out INDEX"


def write_files(
    directory: Path, similar_words: int, rescored: int, words: list[str], arrays: Arrays
) -> None:
    """Writes `SETTINGS`, `WORDS` and `ARRAYS` into a directory."""
    import pyarrow
    from pyarrow import feather

    settings = {
        "format": FORMAT, "score": "maxsim", "similar_words": similar_words, "rescored": rescored
    }  # fmt: skip
    (directory / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    table = pyarrow.table({"word": words})
    feather.write_feather(table, directory / WORDS, compression="uncompressed")
    for name in Arrays._fields:
        write_array(directory / ARRAYS / f"{name}.npy", getattr(arrays, name))


def read_settings(directory: Path) -> tuple[int, int]:
    """The number of similar words and the number of rescored titles of an index.

    Raises:
        UserError: the file is of another format, or a value is impossible.
    """
    path = directory / SETTINGS
    settings = read_json(path, REBUILD_HINT)
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        version = settings.get("format") if isinstance(settings, dict) else None
        raise UserError(
            f"{directory} is of format {version!r:.20}; this version reads {FORMAT}. {REBUILD_HINT}"
        )
    for name in ("similar_words", "rescored"):
        value = settings.get(name)
        if type(value) is not int or not 1 <= value < 1 << 31:
            raise UserError(
                f"{path}: {name} is {value!r:.60}; expected a whole number, at least 1 and below "
                f"2^31. {REBUILD_HINT}"
            )
    return settings["similar_words"], settings["rescored"]


def read_words(directory: Path, mapped: bool = True) -> list[str]:
    """The words of an index, by row.

    Raises:
        UserError: the file cannot be read, or a word is repeated.
    """
    words: list[str] = read_table(directory / WORDS, ("word",), mapped)["word"].to_pylist()
    if len(set(words)) != len(words):
        raise UserError(f"{directory / WORDS}: a word is listed twice. {REBUILD_HINT}")
    return words


def read_table(
    path: Path, columns: tuple[str, ...], mapped: bool = True, has_more: bool = False
) -> Any:
    """Memory-maps an Arrow table of texts, or reads it into memory.

    Args:
        path: the table.
        columns: the names of its columns.
        mapped: False to read it into memory.
        has_more: whether further columns of texts or numbers may follow, see `title_columns`.

    Raises:
        UserError: the file is not such a table, or a text is missing.
    """
    import pyarrow
    from pyarrow import feather

    check_regular_file(path, REBUILD_HINT)
    try:
        if has_compressed_batches(path):
            raise UserError(
                f"{path} is compressed; tables of an index are written without compression. "
                f"{REBUILD_HINT}"
            )
        table = feather.read_table(path, memory_map=mapped)
        table.validate(full=True)
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is not an Arrow table: {reason}. {REBUILD_HINT}") from None
    types = [(name, pyarrow.string()) for name in columns]
    received = [(field.name, field.type) for field in table.schema]
    further = received[len(types) :] if has_more else []
    kinds = (pyarrow.string(), pyarrow.float64())
    is_valid = received == types + further and all(kind in kinds for _, kind in further)
    if not is_valid or len({*table.schema.names}) < len(received):
        raise UserError(
            f"{path} has the columns {table.schema.names}; expected texts in {list(columns)}. "
            f"{REBUILD_HINT}"
        )
    for name, kind in received:
        if kind == pyarrow.float64():
            if not np.isfinite(table[name].drop_null().to_numpy()).all():
                raise UserError(f"{path}: a number of {name!r} is not finite. {REBUILD_HINT}")
        elif table[name].null_count:
            raise UserError(f"{path}: a text is missing. {REBUILD_HINT}")
    return table


def read_arrays(
    directory: Path,
    word_count: int,
    entry_count: int,
    dimension: int,
    text_dimension: int,
    mapped: bool = True,
) -> Arrays:
    """Memory-maps or reads, and checks the arrays of an index.

    Args:
        directory: the index.
        word_count: the number of words.
        entry_count: the number of entries of the corpus.
        dimension: the length of a word's vector.
        text_dimension: the length of a text's vector; 0 without text vectors.
        mapped: False to read the files into memory.

    Raises:
        UserError: an array cannot be read, or a search would read outside of it.
    """
    folder = directory / ARRAYS
    arrays = Arrays(
        *(map_array(folder / f"{name}.npy", REBUILD_HINT, mapped) for name in Arrays._fields)
    )
    problem = array_problem(arrays, word_count, entry_count, dimension, text_dimension)
    if problem is not None:
        name, message = problem
        raise UserError(f"{folder / name}.npy: {message}. {REBUILD_HINT}")
    return arrays
