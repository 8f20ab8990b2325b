"""Gzipped TFRecords of words and of pairs; protobuf is encoded here, without TensorFlow.

An Example is a protobuf message of named features, each a list of values. Here, the features are
encoded in the alphabetical order of their names.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

BYTES, FLOATS, INTEGERS = 1, 2, 3
"""The types of lists: their field numbers in the protobuf message Feature."""
_GZIP_LEVEL = 1  # numbers hardly compress; higher levels cost more than they save


def example(**features: tuple[int, bytes]) -> bytes:
    """An encoded Example.

    Args:
        **features: the type of each list and its encoded values, in the alphabetical order of the
            names.
    """
    entries = []
    for name, (kind, data) in features.items():
        values = _field(1, data) if data or kind == BYTES else b""
        entries.append(_field(1, _field(1, name.encode()) + _field(2, _field(kind, values))))
    return _field(1, b"".join(entries))


def word_records(words: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """TFRecords `{ngrams: int64*, word: bytes}` of words and the ids of their n-grams."""
    return _tfrecords(
        example(ngrams=(INTEGERS, b"".join(map(_varint, ids))), word=(BYTES, word.encode()))
        for word, ids in words
    )


def pair_records(
    query: NDArray[np.int64],
    titles: NDArray[np.int64],
    clicks: NDArray[np.float32],
    query_count: int,
    title_count: int,
) -> bytes:
    """TFRecords `{clicks: float, query: int64, titles: int64*}`, all of the same length.

    Every index is padded to as many bytes as the largest one needs, which protobuf allows. So
    records can be written and read as rows of a byte matrix.

    Args:
        query: the index of each pair's query, `(pairs,)`.
        titles: the indices of the clicked title and the negatives, `(pairs, 1 + negatives)`.
        clicks: the clicks of each pair, `(pairs,)`.
        query_count: total number of queries.
        title_count: total number of titles.
    """
    values = {
        "clicks": (FLOATS, np.ascontiguousarray(clicks, "<f4").view(np.uint8).reshape(-1, 4)),
        "query": (INTEGERS, _varints(query[:, None], query_count)),
        "titles": (INTEGERS, _varints(titles, title_count)),
    }
    sizes = {name: (kind, rows.shape[1]) for name, (kind, rows) in values.items()}
    # Examples differ only in the bytes of their values, which are where these two examples differ.
    template, other = _filled_example(sizes, b"\1"), _filled_example(sizes, b"\2")
    records = np.tile(template, (len(query), 1))
    records[:, template != other] = np.concatenate([rows for _, rows in values.values()], 1)
    return _tfrecords(row.tobytes() for row in records)


def _filled_example(sizes: Mapping[str, tuple[int, int]], byte: bytes) -> NDArray[np.uint8]:
    """An example whose features repeat one byte; `sizes` has their types and sizes by name."""
    features = {name: (kind, byte * size) for name, (kind, size) in sizes.items()}
    return np.frombuffer(example(**features), np.uint8)


def _varints(numbers: NDArray[np.int64], count: int) -> NDArray[np.uint8]:
    """Varints of integers below `count`, padded to one width and concatenated per row."""
    width = -(-max(count - 1, 1).bit_length() // 7)
    shifted = numbers[..., None] >> (7 * np.arange(width))
    continuation = np.where(np.arange(width) < width - 1, 0x80, 0)
    return (
        (shifted & 0x7F | continuation)
        .astype(np.uint8)
        .reshape(len(numbers), numbers.shape[1] * width)
    )


@cache
def _varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low | 0x80]) + _varint(number >> 7) if number > low else bytes([low])


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited protobuf field: bytes, text, a message or packed numbers."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _tfrecords(records: Iterable[bytes]) -> bytes:
    """Frames records as TFRecords, in a gzip stream without file name and time."""
    framed: list[bytes] = []
    for record in records:
        framed += _header(len(record)), record, _checksum(record)
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    return compressor.compress(b"".join(framed)) + compressor.flush()


@cache
def _header(size: int) -> bytes:
    """The length of a record, and the checksum of the length."""
    length = struct.pack("<Q", size)
    return length + _checksum(length)


def _checksum(data: bytes) -> bytes:
    """Masked CRC-32C, as in TFRecord files."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
