"""The steps from sums to files: hashing, negatives, records, tables."""

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
from dssm_tf.tables.text_columns import fingerprints, normal_forms, words_read
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.frames import Part, Settings, Written, counted, write_part
from pipelines.negatives import DRAW, NONE, NegativePool, add_drawn, add_shown, among, mix, random
from pipelines.options import SPLITS, TRAIN, VALIDATION
from pipelines.records import pair_records, word_records

Block = tuple[int, Part]


def write_words(element: Block, settings: Settings, vocabulary: Vocabulary) -> Written:
    """Hashes a bucket's words to letter trigrams and writes its file."""
    bucket, part = element
    words = part.frame["word"].to_list()
    records = word_records((word, vocabulary.ngram_ids(word)) for word in words)
    return write_part(settings.directory, "words", bucket, len(words), records)


def write_titles(
    element: Block,
    settings: Settings,
    words: Iterable[Block],
    titles: Iterable[Block],
    shared: Shared,
) -> Written:
    """Writes a bucket's table of titles; see `write_queries`."""
    bucket, frame = element[0], element[1].frame
    texts = shared.acquire(lambda: Texts(words, titles, settings))
    numbers = _word_numbers(frame["text"], settings, texts)
    counts = frame["clicks"], frame["queries"].cast(pl.Int32)
    return write_part(
        settings.directory, "titles", bucket, len(frame), table(frame["text"], numbers, *counts)
    )


def write_queries(
    group: tuple[int, list[Part]],
    settings: Settings,
    words: Iterable[Block],
    titles: Iterable[Block],
    shared: Shared,
    sizes: Iterable[tuple[int, int]],
) -> Iterator[Any]:
    """Draws negatives, and writes a bucket's table of queries and its records.

    Args:
        group: queries and pairs of a bucket.
        settings: what every step is told.
        words: the fingerprints of all words by bucket, in the order of their numbers.
        titles: fingerprints and clicks of all titles, by bucket.
        shared: keeps them once a process; every step must be given the same.
        sizes: how many queries each bucket has.

    Yields:
        main    Written;
        counts  dict[str, int].
    """
    options, (bucket, parts) = settings.options, group
    queries, pairs = (part.frame for part in parts)
    of_buckets = dict(sizes)
    before = sum(size for other, size in of_buckets.items() if other < bucket)
    every = sum(of_buckets.values())
    texts = shared.acquire(lambda: Texts(words, titles, settings))
    known = texts.titles
    query, title = pairs["q"].to_numpy(), pairs["t"].to_numpy()
    pairs = pairs.with_columns(
        number=np.searchsorted(known, title),
        row=np.searchsorted(queries["fp"].to_numpy(), query),
        key=random(query ^ mix(title), options.seed, DRAW),
    ).filter(pl.lit(among(title, known)))
    clicked = pairs.filter(~col.shown).sort("row", "number")
    avoided = (clicked["row"] * len(known) + clicked["number"]).to_numpy()
    shown = pairs.filter("shown").select("number", q="row")
    kept = pairs.filter("kept").sort("key", maintain_order=True)
    for split, pool in zip(SPLITS, texts.pools, strict=True):
        part = kept.filter(train=split == TRAIN)
        if split == VALIDATION and not options.validation_fraction:
            break
        row, number, keys = (part[name].to_numpy() for name in ("row", "number", "key"))
        rows = np.full((len(part), options.negatives), NONE, np.int64)
        if options.negatives_from != "log":
            add_shown(rows, row, keys, shown)
        if options.negatives_from != "impressions":
            add_drawn(rows, row, keys, avoided, pool)
        own = number[:, None]
        candidates = np.concatenate([own, np.where(rows == NONE, own, rows)], 1)
        clicks = (part["weighted"] / CLICK_WEIGHT_SCALE).to_numpy()
        data = pair_records(before + row, candidates, clicks, every, len(known))
        yield write_part(settings.directory, split, bucket, len(part), data)
        yield counted(
            {
                f"{split}: queries": len(np.unique(row)),
                f"{split}: pairs": len(part),
                f"{split}: clicks": part["clicks"].sum(),
                f"{split}: pairs without a negative": (rows == NONE).all(1).sum(),
            }
        )
    numbers = _word_numbers(queries["text"], settings, texts)
    lengths = np.bincount(clicked["row"].to_numpy(), minlength=len(queries))
    data = table(queries["text"], numbers, clicked=_lists(clicked["number"].to_numpy(), lengths))
    yield write_part(settings.directory, "queries", bucket, len(queries), data)


class Texts:
    """All titles and words, by number.

    Args:
        words: fingerprints of the words of each bucket.
        titles: fingerprints and clicks of its titles.
        settings: titles are drawn in proportion to `clicks ** options.negative_alpha`.

    Attributes:
        titles: their fingerprints, increasing.
        words: likewise.
        pools: titles to draw for the training part, and for validation. The first are those
            that the training part clicked, by its clicks, so that a title which the model is never
            to see as clicked is not pushed away either.
    """

    def __init__(self, words: Iterable[Block], titles: Iterable[Block], settings: Settings) -> None:
        frame = _joined(titles)
        self.titles, self.words = (one["fp"].to_numpy() for one in (frame, _joined(words)))
        self.pools = [
            NegativePool(frame[name].to_numpy(), settings.options.negative_alpha)
            for name in ("clicks", "all")
        ]


def _joined(blocks: Iterable[Block]) -> pl.DataFrame:
    """The rows of all buckets, in the order of their fingerprints: a number is a place here."""
    return pl.concat(part.frame for _, part in sorted(blocks))


def _word_numbers(column: pl.Series, settings: Settings, texts: Texts) -> pa.Array:
    """The words' numbers of each text, as Arrow lists."""
    rules = settings.options.rules
    flat, counts = words_read(normal_forms(column, rules), rules)
    words = flat.unique()
    numbers = np.searchsorted(texts.words, fingerprints(words).to_numpy())
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
