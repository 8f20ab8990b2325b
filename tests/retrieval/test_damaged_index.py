"""Damaged files of faiss and bm25s with fitting checksums are errors of one line."""

from __future__ import annotations

import json
import shutil

import faiss
import numpy as np
import pyarrow
import pytest
from pyarrow import feather

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.index import NEAREST, TITLES, WORDS, VectorIndex
from dssm_tf.retrieval.nearest import Nearest
from tests.retrieval.conftest import random_unit_vectors


@pytest.fixture
def copy(index_directory, tmp_path):
    return shutil.copytree(index_directory, tmp_path / "copy")


def refused(directory) -> str:
    """Writes fitting checksums, opens the index, and returns the message of the error."""
    (directory / CHECKSUMS).unlink()
    write_checksums(directory, files_in(directory))
    with pytest.raises(UserError) as caught:
        VectorIndex.open(directory)
    assert "\n" not in str(caught.value)
    assert "dssm index" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda a: a + 1, "never decreasing"),
        ("indptr", lambda a: a[:-1], "whole numbers"),
        ("indices", lambda a: a + 5, "a number is out of range; expected 0 to 4"),
        ("indices", lambda a: a - 1, "a number is out of range"),
        ("indices", lambda a: a[:-1], "expected a whole number for each of"),
        ("data", lambda a: a * np.nan, "expected finite float64 scores"),
        ("data", lambda a: a.astype(object), "is not an array of numbers"),
        ("data", lambda a: a[None], "in one dimension"),
    ],
)
def test_an_array_of_bm25_out_of_range_is_refused(copy, name, change, message):
    path = copy / WORDS / f"{name}.csc.index.npy"
    np.save(path, change(np.load(path)))
    assert message in refused(copy)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("params", {"backend": "numba"}, "expected dtype to be 'float64'"),
        ("params", [], "expected dtype"),
        (
            "params",
            {"dtype": "float64", "int_dtype": [["a", "b", "c", "d"]]},
            "expected int_dtype to be 'int32'",
        ),
        ("vocab", {"red": -1}, "expected a word for each"),
        ("vocab", {"red": "0"}, "expected a word for each"),
        ("vocab", 3, "expected a word for each"),
    ],
)
def test_settings_and_words_of_bm25_are_checked(copy, name, content, message):
    (copy / WORDS / f"{name}.index.json").write_text(json.dumps(content))
    assert message in refused(copy)


def test_a_damaged_file_of_faiss_is_refused(copy):
    path = copy / NEAREST
    path.write_bytes(path.read_bytes()[:50])
    assert "is not an index of faiss" in refused(copy)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((4, 8), np.float32), "has 4 vectors of 8 numbers; expected 5 of 8"),
        (np.zeros((5, 9), np.float32), "has 5 vectors of 9 numbers; expected 5 of 8"),
        (np.full((5, 8), np.nan, np.float32), "it has a number that is not finite"),
    ],
)
def test_vectors_that_are_not_those_of_the_titles_are_refused(copy, vectors, message):
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(copy / NEAREST))
    assert message in refused(copy)


def test_titles_in_another_order_are_refused_although_checksums_fit(copy):
    table = feather.read_table(copy / TITLES, memory_map=False)
    reversed_table = pyarrow.table(
        {name: table[name].to_pylist()[::-1] for name in table.column_names}
    )
    feather.write_feather(reversed_table, copy / TITLES, compression="uncompressed")
    assert "a vector differs from its title's" in refused(copy)


def test_words_of_bm25_that_are_not_those_of_the_titles_are_refused(copy):
    path = copy / WORDS / "vocab.index.json"
    words = json.loads(path.read_text())
    path.write_text(json.dumps(dict(zip(words, [*words.values()][::-1], strict=True))))
    assert "the words of bm25s differ from those of the titles" in refused(copy)


def test_a_changed_component_that_brings_vectors_to_equal_length_is_refused(copy):
    index = faiss.read_index(str(copy / NEAREST))
    vectors = index.reconstruct_n(0, index.ntotal)
    vectors[0, -1] += 1
    changed = faiss.IndexFlatL2(vectors.shape[1])
    changed.add(vectors)
    faiss.write_index(changed, str(copy / NEAREST))
    assert "the vectors differ in length" in refused(copy)


def test_another_type_of_faiss_index_is_refused(copy):
    faiss.write_index(faiss.IndexLSH(8, 16), str(copy / NEAREST))
    assert "expected IndexFlatL2 or IndexHNSWFlat" in refused(copy)


@pytest.mark.parametrize("value", [100, -2, 1 << 30])
def test_a_neighbor_out_of_range_is_refused_before_a_search(tmp_path, value):
    nearest = Nearest.build(random_unit_vectors(100, 4, 0), "fast")
    neighbors = nearest.index.hnsw.neighbors
    view = faiss.rev_swig_ptr(neighbors.data(), neighbors.size())
    nearest.save(tmp_path / "good")
    view[7] = value
    nearest.save(tmp_path / "bad")
    assert len(Nearest.open(tmp_path / "good").search(np.ones(4, np.float32), 3)[0]) == 3
    with pytest.raises(UserError, match="out of range"):
        Nearest.open(tmp_path / "bad")


def test_a_faiss_file_that_needs_more_memory_than_exists_is_refused_in_one_line(monkeypatch, copy):
    def read_index(*_):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(faiss, "read_index", read_index)
    assert "std::bad_alloc" in refused(copy)
