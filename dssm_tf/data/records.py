"""TFRecord shards: which files, their records one after another, and the features of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.schema import FEATURES

_COMPRESSION = "GZIP"
_TYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
# What reading a damaged record raises; TensorFlow quotes a record it cannot parse in its message,
# which then may not be UTF-8: UnicodeDecodeError, a ValueError.
DAMAGE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, ValueError)


def record_files(directory: Path, split: str) -> list[str]:
    """The shards of a split, in order.

    Raises:
        UserError: there is none, or a shard of the series is missing.
    """
    files = sorted(str(path) for path in Path(directory).glob(f"{split}-*.tfrecord.gz"))
    if not files:
        raise UserError(
            f"{directory} holds no {split}-*.tfrecord.gz; give the directory preprocess wrote."
        )
    expected = files[0].rpartition("-of-")[2].partition(".")[0].lstrip("0")
    if str(len(files)) != expected:
        raise UserError(
            f"{directory} holds {len(files)} of {expected} {split} shards; copy the missing ones "
            "or run preprocess again."
        )
    return files


def read_records(files: list[str]) -> tf.data.Dataset:
    """Serialised examples, file after file.

    Without autotuning, whose thread can miss that the data set is done with and then keeps its
    iterator from ending for many seconds (TensorFlow 2.21, `RootDataset::Iterator`).
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    records = tf.data.TFRecordDataset(files, compression_type=_COMPRESSION)
    return records.with_options(options)


def read_features(serialized: tf.Tensor, *names: str) -> dict[str, Any]:
    """Some of `FEATURES` of `(batch,)` serialised examples.

    Returns:
        By name: a tensor `(batch,)`, or a ragged one where a record may hold several values.
    """
    wanted: dict[str, Any] = {}
    for name in names:
        kind = _TYPES[FEATURES[name].kind]
        single = FEATURES[name].single
        wanted[name] = tf.io.FixedLenFeature([], kind) if single else tf.io.RaggedFeature(kind)
    features: dict[str, Any] = tf.io.parse_example(serialized, wanted)
    return features
