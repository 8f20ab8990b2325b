"""TensorFlow reads the TFRecords, and all pairs have the same length."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import tensorflow as tf

from pipelines.records import pair_records, word_records


def read(path, data, features):
    path.write_bytes(data)
    assert data[4:8] == b"\0\0\0\0"  # no time in the header
    batches = tf.data.TFRecordDataset([str(path)], "GZIP").batch(100)
    return [tf.io.parse_example(batch, features) for batch in batches]


@pytest.mark.parametrize("negatives", [0, 4, 300])
@pytest.mark.parametrize("title_count", [1, 128, (1 << 40) + 1])
def test_tensorflow_reads_the_pairs_and_their_checksums(tmp_path, negatives, title_count):
    rng = np.random.default_rng(0)
    query, titles = rng.integers(0, 200, 70), rng.integers(0, title_count, (70, 1 + negatives))
    titles[0, 0] = title_count - 1
    clicks = rng.random(70).astype(np.float32)
    data = pair_records(query, titles, clicks, 200, title_count)
    (features,) = read(tmp_path / "x", data, {
        "query": tf.io.FixedLenFeature([], tf.int64),
        "titles": tf.io.FixedLenFeature([1 + negatives], tf.int64),
        "clicks": tf.io.FixedLenFeature([], tf.float32),
    })  # fmt: skip
    assert (features["query"].numpy() == query).all()
    assert (features["titles"].numpy() == titles).all()
    assert (features["clicks"].numpy() == clicks).all()
    assert len(gzip.decompress(data)) % 70 == 0


def test_tensorflow_reads_the_words(tmp_path):
    words, ids = ["", "hat", "1␟łódź", "x" * 300], [[], [7], [1, 128, 30_000], [1 << 33] * 200]
    data = word_records(zip(words, ids, strict=True))
    (features,) = read(tmp_path / "x", data, {
        "word": tf.io.FixedLenFeature([], tf.string), "ngrams": tf.io.RaggedFeature(tf.int64),
    })  # fmt: skip
    assert [word.decode() for word in features["word"].numpy()] == words
    assert features["ngrams"].to_list() == ids
