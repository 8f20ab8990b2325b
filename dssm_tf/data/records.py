"""Reads TFRecord shards: which files, how many records, and where one is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.schema import FeatureSpec

_COMPRESSION = "GZIP"
# TensorFlow quotes a record it cannot parse in its message, which then may not be UTF-8.
_DAMAGE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)


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


def verify_records(directory: Path, split: str, spec: FeatureSpec) -> None:
    """Reads every record of a split once and checks their number.

    Raises:
        UserError: naming file and record, where one is corrupt or truncated; or the numbers of
            records found and expected.
    """
    found = sum(_count(file) for file in record_files(directory, split))
    expected = spec.records.get(split, 0)
    if found != expected:
        raise UserError(
            f"{directory} holds {found} {split} records where feature_spec.json says {expected}; "
            "a shard is truncated or from another run. Run preprocess again."
        )


@contextmanager
def explain_damage(directory: Path, splits: tuple[str, ...]) -> Iterator[None]:
    """Turns TensorFlow's error about a damaged record into one that names file and record."""
    try:
        yield
    except _DAMAGE as error:
        for split in splits:
            for file in record_files(directory, split):
                _count(file, parse=True)
        raise error


def _count(file: str, parse: bool = False) -> int:
    count = 0
    try:
        dataset = read_records([file])
        for batch in dataset.batch(512) if not parse else dataset:
            if parse:
                tf.io.parse_single_example(batch, {"clicks": tf.io.FixedLenFeature([], tf.float32)})
            count += len(batch.numpy()) if not parse else 1
    except _DAMAGE:
        if not parse:
            return _count(file, parse=True)  # again, one by one, to name the record
        raise UserError(
            f"{file}: record {count + 1} is corrupt or truncated (records before it are "
            "readable). Copy the file again, or run preprocess again."
        ) from None
    return count
