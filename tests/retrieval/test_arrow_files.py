"""Tables of an index that are compressed or damaged are refused in one line."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from pyarrow import feather

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.arrow_files import has_compressed_batches
from dssm_tf.retrieval.maxsim_files import read_table

TITLES = pa.table({"title": ["red fox", "", "blue fox"] * 50})


def refused(path) -> str:
    with pytest.raises(UserError) as caught:
        read_table(path, ("title",))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("rows_per_batch", [None, 7])
def test_a_table_without_compression_is_read(tmp_path, rows_per_batch):
    path = tmp_path / "titles.arrow"
    feather.write_feather(TITLES, path, compression="uncompressed", chunksize=rows_per_batch)
    assert not has_compressed_batches(path)
    for mapped in (True, False):
        assert read_table(path, ("title",), mapped).equals(TITLES)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("rows_per_batch", [None, 7])
def test_a_compressed_table_is_refused_before_it_is_read(tmp_path, compression, rows_per_batch):
    path = tmp_path / "titles.arrow"
    feather.write_feather(TITLES, path, compression=compression, chunksize=rows_per_batch)
    assert has_compressed_batches(path)
    assert "is compressed" in refused(path)


def test_offsets_of_texts_out_of_range_are_refused(tmp_path):
    path = tmp_path / "titles.arrow"
    table = pa.table({"title": ["a" * 1000, "b" * 1000]})
    feather.write_feather(table, path, compression="uncompressed")
    content = path.read_bytes()
    offsets = struct.pack("<3i", 0, 1000, 2000)
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, struct.pack("<3i", 0, 1 << 30, 2000)))
    assert "is not an Arrow table" in refused(path)


@pytest.mark.parametrize("size", [0, 4, 9, 100, 300])
def test_a_truncated_table_is_refused(tmp_path, size):
    path = tmp_path / "titles.arrow"
    feather.write_feather(TITLES, path, compression="uncompressed")
    path.write_bytes(path.read_bytes()[:size])
    assert "is not an Arrow table" in refused(path)
