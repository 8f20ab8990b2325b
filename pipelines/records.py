"""The files of a bucket, as bytes: TFRecords of words and of pairs, Parquet of texts."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from google_crc32c import value as crc32c
from numpy.typing import NDArray
from pyarrow import parquet

from dssm_tf.data.example_pb2 import Example

_GZIP_LEVEL = 1  # numbers hardly compress; higher levels cost more than they save


def table(columns: dict[str, pa.Array]) -> bytes:
    """Parquet, the same bytes for the same columns."""
    out = BytesIO()
    parquet.write_table(
        pa.table(columns), out, compression="zstd", use_dictionary=False, write_statistics=False
    )
    return out.getvalue()


def word_records(words: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """TFRecords of `{ngrams: int64*, word: bytes}`, of words and the ids of their trigrams."""
    records = []
    for word, ids in words:
        example = Example()
        example.features.feature["ngrams"].int64_list.value.extend(ids)
        example.features.feature["word"].bytes_list.value.append(word.encode())
        records.append(_framed(example.SerializeToString(deterministic=True)))
    return _gzipped(b"".join(records))


def pair_records(
    query: NDArray[np.int64],
    titles: NDArray[np.int64],
    clicks: NDArray[np.float32],
    queries: int,
    all_titles: int,
) -> bytes:
    """TFRecords of `{clicks: float, query: int64, titles: int64*}`, all of one length.

    A number has as many bytes as the largest could need: protobuf allows it, and records can be
    written, and read, as rows of a matrix of bytes.

    Args:
        query: `(pairs,)`.
        titles: `(pairs, 1 + negatives)`.
        clicks: `(pairs,)`.
        queries: how many queries there are.
        all_titles: how many titles there are.
    """
    pairs, columns = titles.shape
    wide = [_width(queries), _width(all_titles)]
    smallest, largest = (
        _example(struct.unpack("<f", bit * 4)[0], [fill(wide[0])], [fill(wide[1])] * columns)
        for bit, fill in ((b"\1", _smallest), (b"\2", _largest))
    )
    framed = np.frombuffer(_framed(smallest), np.uint8)
    rows = np.tile(framed, (pairs, 1))
    # Where two records without a number in common differ, the numbers are: in this order.
    differ = np.frombuffer(smallest, np.uint8) != np.frombuffer(largest, np.uint8)
    rows[:, 12 + np.flatnonzero(differ)] = np.concatenate(
        [
            np.ascontiguousarray(clicks, "<f4").view(np.uint8).reshape(pairs, 4),
            _varints(query, wide[0]),
            _varints(titles, wide[1]).reshape(pairs, wide[1] * columns),
        ],
        axis=1,
    )
    data, size = rows[:, 12:-4].tobytes(), len(smallest)
    sums = (crc32c(data[at : at + size]) for at in range(0, len(data), size))
    masked = _masked(np.fromiter(sums, np.uint64, pairs)).astype("<u4")
    rows[:, -4:] = masked.view(np.uint8).reshape(pairs, 4)
    return _gzipped(rows.tobytes())


def _example(clicks: float, query: Sequence[int], titles: Sequence[int]) -> bytes:
    example = Example()
    example.features.feature["clicks"].float_list.value.append(clicks)
    example.features.feature["query"].int64_list.value.extend(query)
    example.features.feature["titles"].int64_list.value.extend(titles)
    return example.SerializeToString(deterministic=True)


def _width(count: int) -> int:
    """Bytes of the varint of the largest number below a count."""
    return max(1, -(-max(count - 1, 1).bit_length() // 7))


def _smallest(width: int) -> int:
    """The smallest number whose varint has so many bytes, but 1 instead of 0."""
    return 1 << 7 * (width - 1)


def _largest(width: int) -> int:
    """The largest number whose varint has so many bytes."""
    return (1 << 7 * width) - 1


def _varints(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Varints of so many bytes each, in a last dimension."""
    shifted = numbers[..., None] >> (7 * np.arange(width))
    more = np.where(np.arange(width) < width - 1, 0x80, 0)
    return (shifted & 0x7F | more).astype(np.uint8)


def _gzipped(data: bytes) -> bytes:
    """A gzip stream without name and time, so that equal data make equal files."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def _framed(record: bytes) -> bytes:
    """A record as TFRecord has it: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(record))
    sums = (struct.pack("<I", _masked(crc32c(data))) for data in (length, record))
    return b"".join((length, next(sums), record, next(sums)))


def _masked(crc: Any) -> Any:
    """A checksum, or an array of them, as TFRecords have it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
