"""The cleaned click log that a directory of records holds."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from dssm_tf.data.records import read_records, record_files, verify_records
from dssm_tf.data.schema import FeatureSpec


def recorded_clicks(directory: Path) -> list[tuple[str, str, float]]:
    """Query, clicked title and number of clicks of all records, in the order of their texts.

    Args:
        directory: what preprocess wrote; every part of it is read.

    Raises:
        UserError: it is no such directory, or records are damaged or missing.
    """
    features = {
        "query": tf.io.FixedLenFeature([], tf.string),
        "titles": tf.io.RaggedFeature(tf.string),
        "clicks": tf.io.FixedLenFeature([], tf.float32),
    }
    clicks: list[tuple[str, str, float]] = []
    spec = FeatureSpec.load(directory)
    for split, count in spec.records.items():
        if not count:
            continue
        verify_records(directory, split, spec)
        for batch in read_records(record_files(directory, split)).batch(1024):
            parsed = tf.io.parse_example(batch, features)
            clicks += [
                (query.decode(), title.decode(), float(number))
                for query, title, number in zip(
                    parsed["query"].numpy(),
                    parsed["titles"][:, :1].flat_values.numpy(),
                    parsed["clicks"].numpy(),
                    strict=True,
                )
            ]
    return sorted(clicks)
