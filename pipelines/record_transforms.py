"""The steps from sums to files: hashing, negatives, records, tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray
from polars import col
from pyarrow import parquet

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
    Numbers,
    add_drawn,
    add_shown,
    smallest,
)
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.records import pair_records, word_records
from pipelines.sums import PLACE_BITS
from pipelines.texts import DRAW, fingerprints, mix, normal_forms, random, words_read

Sizes = Iterable[tuple[int, int]]
Prints = Iterable[tuple[int, bytes]]


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
    for part in parts_of(part for _, part in blocks)["pool"]:
        pool = smallest(pl.concat([pool, part.frame]), size)
    return 0, Part("pool", 0, as_ipc(pool))


def write_words(element: tuple[int, Part], settings: Settings, vocabulary: Vocabulary) -> Written:
    """Hashes a bucket's words to letter trigrams and writes its file."""
    bucket, part = element
    words = part.frame["word"].to_list()
    records = word_records((word, vocabulary.ngram_ids(word)) for word in words)
    return settings.write("words", bucket, len(words), records)


def write_titles(
    element: tuple[int, Part], settings: Settings, prints: Prints, shared: Shared
) -> Written:
    """Writes a bucket's table of titles."""
    bucket, frame = element[0], element[1].frame
    words = _word_numbers(frame["text"], settings, prints, shared)
    counts = frame["clicks"], frame["queries"].cast(pl.Int32)
    return settings.write("titles", bucket, len(frame), table(frame["text"], words, *counts))


def write_queries(
    group: Group,
    settings: Settings,
    prints: Prints,
    shared: Shared,
    pool: Block,
    shared_pools: Sequence[Shared],
    query_sizes: Sizes,
    title_sizes: Sizes,
) -> Iterator[Any]:
    """Draws negatives, and writes a bucket's table of queries and its records.

    Yields:
        main    Written;
        counts  dict[str, int].
    """
    options, (bucket, blocks) = settings.options, group
    parts = parts_of(blocks)
    query_first, title_first = (first_numbers(one, settings) for one in (query_sizes, title_sizes))
    queries, pairs = parts["queries"][0].frame, parts["chosen"][0].frame
    named = pl.DataFrame(schema={"title": pl.Int64, "t": pl.UInt64})
    named = pl.concat([named, *(part.frame for part in parts["places"])])
    pairs = pairs.join(_numbered(named, title_first), on="t").sort("q", "t")
    query, title = pairs["q"].to_numpy(), pairs["t"].to_numpy()
    pairs = pairs.with_columns(
        row=np.searchsorted(queries["fp"].to_numpy(), query),
        key=random(query ^ mix(title), options.seed, DRAW),
    )
    clicked = pairs.filter(~col.shown).sort("row", "number")
    avoided = Clicked(clicked["row"].to_numpy(), clicked["number"].to_numpy(), int(title_first[-1]))
    shown = pairs.filter("shown").select("number", q="row")
    kept = pairs.filter("kept").sort("key", maintain_order=True)
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
        own = number[:, None]
        titles = np.concatenate([own, np.where(rows == NONE, own, rows)], 1)
        numbers = query_first[bucket] + row
        data = pair_records(numbers, titles, clicks, int(query_first[-1]), int(title_first[-1]))
        yield settings.write(split, bucket, len(part), data)
        yield counted({f"without negatives {split}": (rows == NONE).all(1).sum()})
        settings.tell("records written", len(part))
    words = _word_numbers(queries["text"], settings, prints, shared)
    sizes = np.bincount(clicked["row"].to_numpy(), minlength=len(queries))
    data = table(queries["text"], words, clicked=_lists(clicked["number"].to_numpy(), sizes))
    yield settings.write("queries", bucket, len(queries), data)


def first_numbers(sizes: Sizes, settings: Settings) -> Numbers:
    """The number of each bucket's first text, and how many texts there are."""
    rows = np.zeros(1 + (1 << settings.bits), np.int64)
    for bucket, size in sizes:
        rows[1 + bucket] = size
    return rows.cumsum()


def _numbered(titles: pl.DataFrame, first: Numbers) -> pl.DataFrame:
    """Titles with their numbers, of a bucket and a place there."""
    title = titles["title"].to_numpy()
    number = first[title >> PLACE_BITS] + (title & ((1 << PLACE_BITS) - 1))
    return titles.drop("title").with_columns(number=number)


def _pool(pool: Block, first: Numbers, options: PreprocessOptions, training: bool) -> NegativePool:
    found = _numbered(parts_of(pool[1:])["pool"][0].frame, first)
    return NegativePool(found, options.negative_pool, options.negative_alpha, training=training)


def _word_numbers(texts: pl.Series, settings: Settings, prints: Prints, shared: Shared) -> pa.Array:
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
    return pa.ListArray.from_arrays(offsets, values.astype(np.int32))


def table(text: pl.Series, words: pa.Array, *counts: pl.Series, **lists: pa.Array) -> bytes:
    """Parquet, the same bytes for the same columns."""
    columns = {"text": text.to_arrow(), "words": words}
    columns |= {one.name: one.to_arrow() for one in counts} | lists
    out = BytesIO()
    parquet.write_table(
        pa.table(columns), out, compression="zstd", use_dictionary=False, write_statistics=False
    )
    return out.getvalue()
