"""The steps from sums to files: hashing, negatives, records, tables."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from apache_beam.utils.shared import Shared
from google_crc32c import value as crc32c
from numpy.typing import NDArray
from pyarrow import parquet

from dssm_tf.data.example_pb2 import Example
from dssm_tf.text.growth import grow
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.frames import (
    Block,
    Counts,
    Group,
    Part,
    Settings,
    Written,
    as_ipc,
    counted,
    parts_of,
)
from pipelines.negatives import (
    NONE,
    POOL_COLUMNS,
    Clicked,
    NegativePool,
    add_drawn,
    add_shown,
    smallest,
)
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.sums import DRAW, PLACE_BITS, random
from pipelines.texts import fingerprints, mix, normal_forms, words_read

_GZIP_LEVEL = 1  # numbers hardly compress; higher levels cost more than they save
Sizes = Iterable[tuple[int, int]]


def choose_trigrams(
    ngrams: Counts, options: PreprocessOptions, known: Vocabulary | None
) -> Vocabulary:
    """The most frequent letter trigrams of the training part and of unclicked corpus titles.

    Args:
        ngrams: how often each is there.
        options: how many are kept.
        known: an earlier vocabulary, whose trigrams keep their ids.
    """
    size, least = options.vocabulary_size, options.min_ngram_count
    if known is not None:
        return grow(known, ngrams, size, least)
    return Vocabulary.from_counts(ngrams, size, options.rules, least)


def fill_pool(blocks: Iterable[Block], size: int) -> Block:
    """The titles of smallest rank of several parts, as one."""
    pool = pl.DataFrame(schema=POOL_COLUMNS)
    for part in parts_of(data for _, data in blocks)["pool"]:
        pool = smallest(pl.concat([pool, part.frame]), size)
    return 0, pickle.dumps(Part("pool", 0, as_ipc(pool)))


def write_words(element: Block, settings: Settings, vocabulary: Vocabulary) -> Written:
    """Hashes a bucket's words to letter trigrams and writes its file."""
    bucket, (part,) = element[0], parts_of([element[1]])["words"]
    words = part.frame["word"].to_list()
    records = word_records((word, vocabulary.ngram_ids(word)) for word in words)
    return settings.write("words", bucket, len(words), records)


def write_titles(
    element: Block, settings: Settings, prints: Iterable[Block], shared: Shared
) -> Written:
    """Writes a bucket's table of titles."""
    bucket, (part,) = element[0], parts_of([element[1]])["titles"]
    frame = part.frame
    columns = {
        "text": frame["text"].to_arrow(),
        "words": _word_numbers(frame["text"], settings, prints, shared),
        "clicks": frame["clicks"].to_arrow(),
        "queries": frame["queries"].cast(pl.Int32).to_arrow(),
    }
    return settings.write("titles", bucket, len(frame), table(columns))


def write_queries(
    group: Group,
    settings: Settings,
    prints: Iterable[Block],
    pool: Block,
    query_sizes: Sizes,
    title_sizes: Sizes,
    shared_prints: Shared,
    shared_pools: Sequence[Shared],
) -> Iterator[Any]:
    """Draws negatives, and writes a bucket's table of queries and its records.

    Yields:
        main    Written;
        counts  dict[str, int].
    """
    options, (bucket, blocks) = settings.options, group
    parts = parts_of(blocks)
    query_first, title_first = (first_numbers(one, settings) for one in (query_sizes, title_sizes))
    queries, pairs = parts["queries"][0].frame, parts["pairs"][0].frame
    named = pl.DataFrame(schema={"title": pl.Int64, "t": pl.UInt64})
    named = pl.concat([named, *(part.frame for part in parts["places"])])
    pairs = pairs.join(_numbered(named, title_first), on="t").sort("q", "t")
    row = np.searchsorted(queries["fp"].to_numpy(), pairs["q"].to_numpy())
    pairs = pairs.with_columns(row=pl.Series(row, dtype=pl.Int64))
    clicked = pairs.filter(~pl.col("shown")).sort("row", "number")
    avoided = Clicked(clicked["row"].to_numpy(), clicked["number"].to_numpy(), int(title_first[-1]))
    shown = pairs.filter("shown").select("number", q="row")
    key = random(pairs["q"].to_numpy() ^ mix(pairs["t"].to_numpy()), options.seed, DRAW)
    kept = pairs.with_columns(key=pl.Series(key)).filter("kept").sort("key", maintain_order=True)
    for split in (TRAIN, VALIDATION)[: 1 + (options.validation_fraction > 0)]:
        training = split == TRAIN
        part = kept.filter(train=training)
        row, number, keys, clicks = (
            part[name].to_numpy() for name in ("row", "number", "key", "clicks")
        )
        rows = np.full((len(part), options.negatives), NONE, np.int64)
        if options.negatives_from != "log":
            add_shown(rows, row, keys, shown)
        if options.negatives_from != "impressions":
            drawn = shared_pools[training].acquire(
                lambda training=training: _pool(pool, title_first, options, training)
            )
            add_drawn(rows, row, keys, avoided, drawn)
        bare = (rows == NONE).all(1).sum()
        own = number[:, None]
        titles = np.concatenate([own, np.where(rows == NONE, own, rows)], 1)
        numbers = query_first[bucket] + row
        data = pair_records(numbers, titles, clicks, int(query_first[-1]), int(title_first[-1]))
        yield settings.write(split, bucket, len(part), data)
        yield counted({f"without negatives {split}": bare})
        settings.tell("records written", len(part))
    sizes = np.bincount(clicked["row"].to_numpy(), minlength=len(queries))
    columns = {
        "text": queries["text"].to_arrow(),
        "words": _word_numbers(queries["text"], settings, prints, shared_prints),
        "clicked": _lists(clicked["number"].to_numpy(), sizes),
    }
    yield settings.write("queries", bucket, len(queries), table(columns))


def first_numbers(sizes: Sizes, settings: Settings) -> NDArray[np.int64]:
    """The number of each bucket's first text, and how many texts there are."""
    rows = np.zeros(1 << settings.bits, np.int64)
    for bucket, size in sizes:
        rows[bucket] = size
    return np.append(0, np.cumsum(rows))


def _numbered(titles: pl.DataFrame, first: NDArray[np.int64]) -> pl.DataFrame:
    """Titles with their numbers, of a bucket and a place there."""
    title = titles["title"].to_numpy()
    number = first[title >> PLACE_BITS] + (title & ((1 << PLACE_BITS) - 1))
    return titles.with_columns(number=pl.Series(number)).drop("title")


def _pool(
    pool: Block, first: NDArray[np.int64], options: PreprocessOptions, training: bool
) -> NegativePool:
    found = _numbered(parts_of(pool[1:])["pool"][0].frame, first)
    return NegativePool(found, options.negative_pool, options.negative_alpha, training=training)


def _word_numbers(
    texts: pl.Series, settings: Settings, prints: Iterable[Block], shared: Shared
) -> pa.Array:
    """The words' numbers of each text, as Arrow lists.

    Args:
        texts: of queries or titles.
        settings: what every step is told.
        prints: the fingerprints of all words by bucket, in the order of their numbers.
        shared: keeps them once a process.
    """
    every = shared.acquire(
        lambda: np.concatenate([np.frombuffer(data, np.uint64) for _, data in sorted(prints)])
    )
    rules = settings.options.rules
    flat, counts = words_read(normal_forms(texts, rules), rules)
    words = flat.unique()
    numbers = np.searchsorted(every, fingerprints(words).to_numpy())
    return _lists(flat.replace_strict(words, numbers, return_dtype=pl.Int32).to_numpy(), counts)


def _lists(values: NDArray[np.integer], counts: NDArray[np.integer]) -> pa.Array:
    """Arrow lists of 32-bit numbers, of so many each."""
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.astype(np.int32)))


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
        records.append(example.SerializeToString(deterministic=True))
    return _tfrecords(records)


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
    wide, wide_title = (-(-max(count - 1, 1).bit_length() // 7) for count in (queries, all_titles))
    samples = []
    for byte, fill in (
        (1, lambda width: 1 << 7 * (width - 1)),
        (2, lambda width: (1 << 7 * width) - 1),
    ):
        feature = (example := Example()).features.feature
        feature["clicks"].float_list.value.append(np.full(4, byte, np.uint8).view("<f4")[0])
        feature["query"].int64_list.value.append(fill(wide))
        feature["titles"].int64_list.value.extend([fill(wide_title)] * titles.shape[1])
        samples.append(np.frombuffer(example.SerializeToString(deterministic=True), np.uint8))
    # Where two records without a number in common differ, the numbers are: in this order.
    numbers = [
        np.ascontiguousarray(clicks, "<f4").view(np.uint8).reshape(-1, 4),
        _varints(query[:, None], wide),
        _varints(titles, wide_title),
    ]
    rows = np.tile(samples[0], (len(query), 1))
    rows[:, np.flatnonzero(samples[0] != samples[1])] = np.concatenate(numbers, axis=1)
    return _tfrecords(row.tobytes() for row in rows)


def _varints(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Varints of so many bytes each, one behind the other, of the numbers of each row."""
    shifted = numbers[..., None] >> (7 * np.arange(width))
    more = np.where(np.arange(width) < width - 1, 0x80, 0)
    return (shifted & 0x7F | more).astype(np.uint8).reshape(len(numbers), numbers.shape[1] * width)


def _tfrecords(records: Iterable[bytes]) -> bytes:
    """Records as TFRecord frames them, in a gzip stream without name and time."""
    framed: list[bytes] = []
    for record in records:
        framed += _head(len(record)), record, _checksum(record)
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    return packer.compress(b"".join(framed)) + packer.flush()


@cache
def _head(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + _checksum(length)


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
