"""The tables and pairs of a preprocessed directory as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.data.format import Spec

_BATCH = 8192


class Pairs(NamedTuple):
    """Queries and titles clicked for them.

    Args:
        query: int64 `(pairs,)`.
        titles: int64 `(pairs, 1 + negatives)`; the first was clicked, -1 is none.
        clicks: float32 `(pairs,)`, weighted if preprocess was told to.
    """

    query: NDArray[np.int64]
    titles: NDArray[np.int64]
    clicks: NDArray[np.float32]


class Words(NamedTuple):
    """Distinct words and their trigrams.

    Args:
        words: Arrow texts.
        splits: int64 `(words + 1,)`; ids `splits[i]` to `splits[i + 1]` are those of word i.
        ngrams: int32.
    """

    words: pa.Array
    splits: NDArray[np.int64]
    ngrams: NDArray[np.int32]


def read_table(directory: Path, spec: Spec, kind: str, columns: Sequence[str]) -> pa.Table:
    """Columns of `titles` or `queries`, as long as the numbers go.

    Raises:
        UserError: a file is missing or damaged.
    """
    tables = []
    for path, rows in zip(spec.paths(directory, kind), spec.rows[kind], strict=True):
        try:
            found = parquet.read_table(path, columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from None
        if len(found) != rows or found.column_names != list(columns):
            raise _damaged(path, f"{len(found):,} rows; expected {rows:,}")
        tables.append(found)
    return pa.concat_tables(tables)


def read_pairs(directory: Path, spec: Spec, split: str) -> Pairs:
    """The pairs of a part, in the order of the files.

    Raises:
        UserError: a file is missing or damaged.
    """
    features = {
        "clicks": tf.io.FixedLenFeature([], tf.float32),
        "query": tf.io.FixedLenFeature([], tf.int64),
        "titles": tf.io.FixedLenFeature([1 + spec.negatives], tf.int64),
    }
    found = _parsed(directory, spec, split, features)
    query, titles, clicks = (
        np.concatenate([batch[name].numpy() for batch in found] or [empty])
        for name, empty in (
            ("query", np.zeros(0, np.int64)),
            ("titles", np.zeros((0, 1 + spec.negatives), np.int64)),
            ("clicks", np.zeros(0, np.float32)),
        )
    )
    titles[:, 1:][titles[:, 1:] == titles[:, :1]] = -1
    return Pairs(query, titles, clicks)


def read_words(directory: Path, spec: Spec) -> Words:
    """The words, in the order of their numbers.

    Raises:
        UserError: a file is missing or damaged.
    """
    features = {
        "word": tf.io.FixedLenFeature([], tf.string),
        "ngrams": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    }
    found = _parsed(directory, spec, "words", features)
    words = [batch["word"].numpy().tolist() for batch in found]
    lengths = [batch["ngrams"].row_lengths().numpy() for batch in found]
    ngrams = [batch["ngrams"].flat_values.numpy().astype(np.int32) for batch in found]
    return Words(
        pa.array([word for some in words for word in some], pa.binary()).cast(pa.string()),
        np.cumsum(np.concatenate([[0], *lengths])).astype(np.int64),
        np.concatenate([np.zeros(0, np.int32), *ngrams]),
    )


def _parsed(
    directory: Path, spec: Spec, kind: str, features: dict[str, Any]
) -> list[dict[str, Any]]:
    """The records of all files of a kind, a batch at a time."""
    found = []
    for path, rows in zip(spec.paths(directory, kind), spec.rows[kind], strict=True):
        read = 0
        try:
            for batch in tf.data.TFRecordDataset(str(path), "GZIP").batch(_BATCH):
                found.append(tf.io.parse_example(batch, features))
                read += len(batch)
        except (tf.errors.OpError, ValueError) as error:
            raise _damaged(path, error) from None
        if read != rows:
            raise _damaged(path, f"{read:,} records; expected {rows:,}")
    return found


def _damaged(path: Path, error: object) -> UserError:
    what = " ".join(str(error).split())[:200]
    return UserError(f"{path} is damaged ({what}); copy the file again, or run preprocess again.")
