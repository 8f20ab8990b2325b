"""Damaged records: one line names the file, and the record where there is one."""

from __future__ import annotations

import gzip
import shutil
import zlib
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.records import read_records, record_files
from tests.clicks import Data, click_log, count_bytes, frames, write_data, write_records


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Data:
    return write_data(tmp_path_factory.mktemp("records") / "data", click_log(), shards=3)


@pytest.fixture
def data(good, tmp_path) -> Data:
    """A copy that a test may damage."""
    return replace(good, path=shutil.copytree(good.path, tmp_path / "data"))


def verify(data: Data) -> None:
    Preprocessed(data.path).log()


def shard(data: Data, number: int = 1):
    return data.path / f"train-{number:05d}-of-00003.tfrecord.gz"


def test_records_come_back_byte_for_byte_in_the_order_of_the_shards(good):
    found = [one.numpy() for one in read_records(record_files(good.path, "train"))]
    assert found == [one.serialize(good.vocabulary) for one in good.examples["train"]]


def test_whole_data_is_accepted(good):
    verify(good)


@pytest.mark.parametrize("record", [0, 3, -1])
def test_a_flipped_byte_in_a_record_names_file_and_record(data, record):
    raw = bytearray(gzip.decompress(shard(data).read_bytes()))
    places = frames(bytes(raw))
    start, stop = places[record]
    raw[(start + stop) // 2] ^= 0x40
    shard(data).write_bytes(gzip.compress(bytes(raw)))
    number = range(len(places))[record] + 1
    with pytest.raises(UserError, match=rf"train-00001-of-00003.*: record {number} is corrupt"):
        verify(data)


def test_a_flipped_byte_in_a_records_length_names_file_and_record(data):
    raw = bytearray(gzip.decompress(shard(data).read_bytes()))
    start, _ = frames(bytes(raw))[2]
    raw[start - 12] ^= 0x01
    shard(data).write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(UserError, match=r"train-00001-of-00003.*: record 3 is corrupt"):
        verify(data)


def test_a_flipped_byte_anywhere_in_the_compressed_stream_names_the_file(good, tmp_path):
    """Any byte of the file, its gzip header and its checksum included."""
    data = replace(good, path=shutil.copytree(good.path, tmp_path / "data"))
    whole = shard(data).read_bytes()

    # Bytes 4 to 9 of a gzip header are a time, flags and a system that mean nothing for the data;
    # a decoder may pass over the last eight, the checksum, when each record has its own.
    @settings(max_examples=20)
    @given(place=st.integers(10, len(whole) - 9), bit=st.integers(0, 7))
    def check(place, bit):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        shard(data).write_bytes(damaged)
        try:
            same = gzip.decompress(bytes(damaged)) == gzip.decompress(whole)
        except (OSError, EOFError, zlib.error):
            same = False
        if not same:
            with pytest.raises(UserError, match="train-00001-of-00003"):
                verify(data)

    check()


def test_a_file_cut_anywhere_names_the_file(good, tmp_path):
    data = replace(good, path=shutil.copytree(good.path, tmp_path / "data"))
    count_bytes(data.path)
    whole = shard(data).read_bytes()

    # Without the last bytes nothing may be missing but the checksum.
    everything = gzip.decompress(whole)

    @settings(max_examples=20)
    @given(length=st.integers(0, len(whole) - 9))
    @example(length=0)
    @example(length=len(whole) // 2)
    def check(length):
        shard(data).write_bytes(whole[:length])
        if zlib.decompressobj(31).decompress(whole[:length]) != everything:
            with pytest.raises(UserError, match="train"):
                verify(data)

    check()


def test_data_cut_between_two_records_is_refused_with_both_sizes(data):
    count_bytes(data.path)
    whole = shard(data).stat().st_size
    verify(data)
    raw = gzip.decompress(shard(data).read_bytes())
    _, stop = frames(raw)[1]
    shard(data).write_bytes(gzip.compress(raw[: stop + 4]))
    cut = shard(data).stat().st_size
    expected = f"{shard(data).name} has {cut:,} bytes where preprocess wrote {whole:,}"
    with pytest.raises(UserError, match=expected):
        verify(data)


def test_a_missing_shard_is_counted(data):
    shard(data).unlink()
    with pytest.raises(UserError, match="holds 2 of 3 train shards"):
        verify(data)


def test_a_split_without_a_file_is_named(data):
    for path in data.path.glob("train-*"):
        path.unlink()
    with pytest.raises(UserError, match=r"holds no train-\*"):
        verify(data)


def test_a_file_that_is_no_gzip_is_named(data):
    shard(data).write_bytes(b"not compressed at all, but long enough to look at")
    with pytest.raises(UserError, match=r"train-00001-of-00003.*: record 1"):
        verify(data)


def test_a_record_that_is_sound_but_no_example_is_named(data):
    records = [one.serialize(data.vocabulary) for one in data.examples["train"][:3]]
    write_records(shard(data), [*records[:2], b"\xff\xff not an Example", records[2]])
    with pytest.raises(UserError, match=r"train-00001-of-00003.*: record 3"):
        verify(data)
