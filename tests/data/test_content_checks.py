"""A preprocessed directory with false content and fitting checksums is refused in one line."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from pipelines.records import pair_records
from tests.clicks import click_log, seal, write_data


@pytest.fixture
def copy(tmp_path):
    return write_data(tmp_path / "data", click_log(), negatives=2, shards=1)


def read_all(directory) -> None:
    data = Preprocessed(directory)
    _ = data.titles, data.words("titles"), data.clicked, data.distinct_words, data.log()


def refused(copy) -> str:
    seal(copy.path, copy.spec)
    with pytest.raises(UserError) as caught:
        read_all(copy.path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_intact_directory_is_read(copy):
    seal(copy.path, copy.spec)
    read_all(copy.path)


def change_table(copy, kind, change) -> None:
    (path,) = copy.path.glob(f"{kind}-*")
    parquet.write_table(change(parquet.read_table(path)), path)


def set_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("titles", lambda t: t.drop_columns(["clicks"]), "it has the columns"),
        ("titles", lambda t: t.drop_columns(["text"]), "is not a table of titles"),
        ("titles", lambda t: t.slice(1), "rows; expected"),
        ("titles", lambda t: set_column(t, "clicks", ["a"] * len(t)), "clicks is of type string"),
        ("titles", lambda t: set_column(t, "text", [1] * len(t)), "text is of type int64"),
        ("titles", lambda t: set_column(t, "text", [None, *["a"] * (len(t) - 1)]), "is missing"),
        ("titles", lambda t: set_column(t, "queries", [-1] * len(t)), "queries has values from -1"),
        ("titles", lambda t: set_column(t, "words", [[2**30]] * len(t)), "words has values from"),
        ("queries", lambda t: set_column(t, "clicked", [[-1]] * len(t)), "clicked has values"),
        ("queries", lambda t: set_column(t, "clicked", [[0, None]] * len(t)), "is missing"),
    ],
)
def test_a_table_of_another_form_is_refused(copy, kind, change, message):
    change_table(copy, kind, change)
    assert message in refused(copy)


def test_a_table_that_would_fill_the_memory_is_refused_before_it_is_read(copy):
    texts = ["a" * 1_000_000] * copy.spec.count("titles")
    change_table(copy, "titles", lambda table: set_column(table, "text", texts))
    assert "its texts would become" in refused(copy)
    lists = [[0] * 200_000] * copy.spec.count("titles")
    change_table(copy, "titles", lambda table: set_column(table, "words", lists))
    assert "bytes would become" in refused(copy)


@pytest.mark.parametrize(
    ("query", "title", "clicks", "message"),
    [
        (10**6, 0, 1.0, "query has values from"),
        (0, 10**6, 1.0, "titles has values from"),
        (0, 0, float("nan"), "clicks has values from nan"),
        (0, 0, -1.0, "clicks has values from -1"),
    ],
)
def test_pairs_out_of_range_are_refused(copy, query, title, clicks, message):
    (path,) = copy.path.glob("train-*")
    rows = copy.spec.count("train")
    titles = np.full((rows, 3), title)
    records = pair_records(
        np.full(rows, query), titles, np.full(rows, clicks, np.float32), 10**7, 10**7
    )
    path.write_bytes(records)
    assert message in refused(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-1], "its last record is not complete"),
        (lambda raw: raw + raw, "records; expected"),
        (
            lambda raw: b"\xff" * 7 + b"\x7f" + raw[8:],
            "a record has 9,223,372,036,854,775,807 bytes",
        ),
        (lambda raw: raw + b"\0" * 10**8, "bytes would become more than"),
    ],
)
def test_records_that_tensorflow_would_fail_on_are_refused_before_it_reads_them(
    copy, change, message
):
    (path,) = copy.path.glob("words-*")
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    assert message in refused(copy)


@pytest.mark.parametrize(
    ("word", "ngram", "message"),
    [(b"a", 10**6, "ngrams has values from"), (b"\xe9", 1, "a word is not text")],
)
def test_words_that_are_not_those_of_the_vocabulary_are_refused(copy, word, ngram, message):
    (path,) = copy.path.glob("words-*")
    example = tf.train.Example()
    example.features.feature["word"].bytes_list.value.append(word)
    example.features.feature["ngrams"].int64_list.value.append(ngram)
    with tf.io.TFRecordWriter(str(path), "GZIP") as file:
        for _ in range(copy.spec.count("words")):
            file.write(example.SerializeToString())
    assert message in refused(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"negatives": 2**52}, {"negatives": -1}, {"negatives": [1]}, {"ngrams": "3"},
        {"clicks": True}, {"negative_alpha": float("nan")}, {"rows": {}}, {"rows": {"words": [1]}},
    ],
)  # fmt: skip
def test_a_spec_with_impossible_values_is_refused(copy, change):
    replace(copy.spec, **change).save(copy.path)
    with pytest.raises(UserError, match=r"spec\.json is damaged"):
        Preprocessed(copy.path)
