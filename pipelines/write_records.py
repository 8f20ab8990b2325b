"""Steps that write sums to files: word hashing, negatives, records, tables of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray
from polars import col
from pyarrow import parquet

from dssm_tf.positions.curve import CLICK_WEIGHT_SCALE
from dssm_tf.tables.text_columns import explode_words, fingerprints, normal_forms
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.negatives import (
    DRAW,
    EMPTY,
    NegativePool,
    fill_from_impressions,
    fill_from_pool,
    isin_sorted,
    seeded_hash,
    splitmix64,
)
from pipelines.options import SPLITS, TRAIN, VALIDATION
from pipelines.records import pair_records, word_records
from pipelines.shards import OutputFile, PipelineContext, Shard, count_output, write_output_file

BucketShard = tuple[int, Shard]
"""A bucket and a shard of its rows."""


def write_words(
    element: BucketShard, context: PipelineContext, vocabulary: Vocabulary
) -> OutputFile:
    """Hashes the words of a bucket to ids of letter n-grams and writes its file of words."""
    bucket, shard = element
    words = shard.frame["word"].to_list()
    records = word_records((word, vocabulary.ngram_ids(word)) for word in words)
    return write_output_file(context.directory, "words", bucket, len(words), records)


def write_titles(
    element: BucketShard,
    context: PipelineContext,
    words: Iterable[BucketShard],
    titles: Iterable[BucketShard],
    shared: Shared,
) -> OutputFile:
    """Writes the table of titles of a bucket; arguments as in `write_queries`."""
    bucket, frame = element[0], element[1].frame
    texts = shared.acquire(lambda: AllTexts(words, titles, context))
    numbers = _word_numbers(frame["text"], context, texts)
    counts = frame["clicks"], frame["queries"].cast(pl.Int32)
    data = table(frame["text"], numbers, *counts)
    return write_output_file(context.directory, "titles", bucket, len(frame), data)


def write_queries(
    group: tuple[int, list[Shard]],
    context: PipelineContext,
    words: Iterable[BucketShard],
    titles: Iterable[BucketShard],
    shared: Shared,
    sizes: Iterable[tuple[int, int]],
) -> Iterator[Any]:
    """Draws negatives, and writes the table of queries and the records of a bucket.

    Args:
        group: a bucket, and its shards of queries and of pairs.
        context: settings of the pipeline.
        words: fingerprints of all words by bucket, in the order of their numbers.
        titles: fingerprints and clicks of all titles by bucket.
        shared: caches `AllTexts` per process; all steps must receive the same one.
        sizes: number of queries of each bucket.

    Yields:
        main    OutputFile;
        counts  dict[str, int].
    """
    options, (bucket, shards) = context.options, group
    queries, pairs = (shard.frame for shard in shards)
    bucket_sizes = dict(sizes)
    first_query = sum(size for other, size in bucket_sizes.items() if other < bucket)
    total_queries = sum(bucket_sizes.values())
    texts = shared.acquire(lambda: AllTexts(words, titles, context))
    title_keys = texts.titles
    query, title = pairs["query_fingerprint"].to_numpy(), pairs["title_fingerprint"].to_numpy()
    pairs = pairs.with_columns(
        number=np.searchsorted(title_keys, title),
        row=np.searchsorted(queries["fingerprint"].to_numpy(), query),
        key=seeded_hash(query ^ splitmix64(title), options.seed, DRAW),
    ).filter(pl.lit(isin_sorted(title, title_keys)))
    clicked = pairs.filter(~col.impression).sort("row", "number")
    clicked_pairs = (clicked["row"] * len(title_keys) + clicked["number"]).to_numpy()
    impressions = pairs.filter("impression").select("number", query="row")
    positives = pairs.filter("positive").sort("key", maintain_order=True)
    for split, pool in zip(SPLITS, texts.pools, strict=True):
        split_pairs = positives.filter(train=split == TRAIN)
        if split == VALIDATION and not options.validation_fraction:
            break
        row, number, keys = (split_pairs[name].to_numpy() for name in ("row", "number", "key"))
        negatives = np.full((len(split_pairs), options.negatives), EMPTY, np.int64)
        if options.draws_from_impressions:
            fill_from_impressions(negatives, row, keys, impressions)
        if options.draws_from_log:
            fill_from_pool(negatives, row, keys, clicked_pairs, pool)
        positive = number[:, None]
        # If too few titles are left, the clicked title fills the row.
        candidates = np.concatenate(
            [positive, np.where(negatives == EMPTY, positive, negatives)], 1
        )
        clicks = (split_pairs["weighted"] / CLICK_WEIGHT_SCALE).to_numpy()
        data = pair_records(first_query + row, candidates, clicks, total_queries, len(title_keys))
        yield write_output_file(context.directory, split, bucket, len(split_pairs), data)
        yield count_output(
            {
                f"{split}: queries": len(np.unique(row)),
                f"{split}: pairs": len(split_pairs),
                f"{split}: clicks": split_pairs["clicks"].sum(),
                f"{split}: pairs without a negative": (negatives == EMPTY).all(1).sum(),
            }
        )
    numbers = _word_numbers(queries["text"], context, texts)
    lengths = np.bincount(clicked["row"].to_numpy(), minlength=len(queries))
    data = table(queries["text"], numbers, clicked=_lists(clicked["number"].to_numpy(), lengths))
    yield write_output_file(context.directory, "queries", bucket, len(queries), data)


class AllTexts:
    """Fingerprints of all titles and words, and the pools of negatives.

    Args:
        words: fingerprints of the words of each bucket.
        titles: fingerprints and clicks of the titles of each bucket.
        context: titles are drawn in proportion to `clicks ** options.negative_alpha`.

    Attributes:
        titles: `(titles,)` fingerprints, increasing. The number of a title is its index here.
        words: `(words,)` fingerprints, increasing. The number of a word is its index here.
        pools: titles to draw for the training split and for the validation split. The first pool
            has only titles with training clicks, weighted by these: a title that is never a
            positive in training must not be a negative either.
    """

    def __init__(
        self, words: Iterable[BucketShard], titles: Iterable[BucketShard], context: PipelineContext
    ) -> None:
        frame = _concat_buckets(titles)
        self.titles = frame["fingerprint"].to_numpy()
        self.words = _concat_buckets(words)["fingerprint"].to_numpy()
        self.pools = [
            NegativePool(frame[name].to_numpy(), context.options.negative_alpha)
            for name in ("clicks", "all_clicks")
        ]


def _concat_buckets(shards: Iterable[BucketShard]) -> pl.DataFrame:
    """The rows of all buckets, in the order of their fingerprints."""
    return pl.concat(shard.frame for _, shard in sorted(shards))


def _word_numbers(column: pl.Series, context: PipelineContext, texts: AllTexts) -> pa.Array:
    """Numbers of the words of each text, as Arrow lists."""
    rules = context.options.rules
    flat, counts = explode_words(normal_forms(column, rules), rules)
    words = flat.unique()
    numbers = np.searchsorted(texts.words, fingerprints(words).to_numpy())
    return _lists(flat.replace_strict(words, numbers, return_dtype=pl.Int32).to_numpy(), counts)


def _lists(values: NDArray[np.integer], counts: NDArray[np.integer]) -> pa.Array:
    """Splits 32-bit integers into Arrow lists; `counts` are the lengths of the lists."""
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, values.astype(np.int32))


def table(text: pl.Series, words: pa.Array, *counts: pl.Series, **lists: pa.Array) -> bytes:
    """Encodes a table of texts as Parquet: the same bytes for the same columns.

    Args:
        text: the texts.
        words: numbers of the words of each text.
        *counts: further columns of integers, named by their series.
        **lists: further columns of lists by name.
    """
    columns = {"text": text.to_arrow(), "words": words}
    columns |= {column.name: column.to_arrow() for column in counts} | lists
    file = BytesIO()
    parquet.write_table(
        pa.table(columns), file, compression="zstd", use_dictionary=False, write_statistics=False
    )
    return file.getvalue()
