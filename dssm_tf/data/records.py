"""TFRecord shards: which files, and their records one after another."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from dssm_tf.common.errors import UserError

_COMPRESSION = "GZIP"
# What reading a damaged record raises; TensorFlow quotes a record it cannot parse in its message,
# which then may not be UTF-8.
DAMAGE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)


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
    expected = int(files[0].rsplit("-of-", 1)[1].split(".")[0])
    if len(files) != expected:
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
