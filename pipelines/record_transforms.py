"""The steps from sums to files: hashing, negatives, records, tables."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray

from dssm_tf.text.growth import grow
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.frames import Block, Counts, Part, as_ipc, parts_of
from pipelines.negatives import NONE, Clicked, NegativePool, add_drawn, add_shown, smallest
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.records import pair_records, table, word_records
from pipelines.settings import Settings, Written
from pipelines.sums import DRAW, PLACE_BITS, POOL_COLUMNS, random
from pipelines.texts import all_words, fingerprints, lists_of, mix, normal_forms, words_read
from pipelines.transforms import Group

SAMPLES = 12
Sample = tuple[int, str, float, list[int]]
"""Of a training record: a random number, query, clicks, numbers of titles."""
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


def write_words(element: Block, settings: Settings, vocabulary: Vocabulary) -> Iterator[Any]:
    """Hashes a bucket's words to letter trigrams and writes its file.

    Yields:
        main   Written;
        counts dict[str, int].
    """
    bucket, (part,) = element[0], parts_of([element[1]])["words"]
    words = part.frame.select("word", "others").rows()
    records = word_records((word, vocabulary.ngram_ids(word)) for word, _ in words)
    yield settings.written("words", bucket, len(words), records)
    listed, counts = {*vocabulary.ngrams}, Counter[str]()
    for word, times in words:
        if times:  # how much of other parts the vocabulary covers
            ngrams = letter_ngrams(word)
            known = sum(ngram in listed for ngram in ngrams)
            counts["ngrams"] += times * len(ngrams)
            counts["ngrams known"] += times * known
            counts["covered words"] += 1
            counts["covered words known"] += known == len(ngrams)
    yield TaggedOutput("counts", dict(counts))


def write_titles(
    element: Block, settings: Settings, prints: Iterable[Block], shared: Shared
) -> Written:
    """Writes a bucket's table of titles."""
    bucket, (part,) = element[0], parts_of([element[1]])["titles"]
    frame = part.frame
    columns = {
        "text": frame["text"].to_arrow(),
        "words": _word_numbers(frame["text"], settings, _prints(prints, shared)),
        "clicks": frame["clicks"].to_arrow(),
        "queries": frame["queries"].cast(pl.Int32).to_arrow(),
    }
    return settings.written("titles", bucket, len(frame), table(columns))


def write_queries(
    group: Group,
    settings: Settings,
    prints: Iterable[Block],
    pool: Block,
    query_sizes: Sizes,
    title_sizes: Sizes,
    shared_prints: Shared,
    shared_pools: Shared,
) -> Iterator[Any]:
    """Draws negatives, and writes a bucket's table of queries and its records.

    Yields:
        main    Written;
        counts  dict[str, int];
        samples see `Sample`.
    """
    options, (bucket, blocks) = settings.options, group
    parts = parts_of(blocks)
    query_first, title_first = (first_numbers(s, settings) for s in (query_sizes, title_sizes))
    queries, pairs = parts["queries"][0].frame, parts["pairs"][0].frame
    places = [_numbered(part.frame, title_first) for part in parts["places"]]
    pairs = pairs.join(
        pl.concat([pl.DataFrame(schema={"t": pl.UInt64, "number": pl.Int64}), *places]), on="t"
    ).sort("q", "t")
    row = np.searchsorted(queries["fp"].to_numpy(), pairs["q"].to_numpy()).astype(np.int64)
    number = pairs["number"].to_numpy()
    was_clicked = ~pairs["shown"].to_numpy()
    clicked = Clicked(row[was_clicked], number[was_clicked], int(title_first[-1]))
    pools = shared_pools.acquire(lambda: _Pools(pool, title_first, settings))
    both = pairs["q"].to_numpy() ^ mix(pairs["t"].to_numpy())
    keys = random(both, options.seed, DRAW)
    shown = pl.DataFrame({"q": row[~was_clicked], "number": number[~was_clicked]})
    counts: Counts = {}
    for split, training in ((TRAIN, True), (VALIDATION, False)):
        if not (training or options.validation_fraction):
            continue
        at = np.flatnonzero(pairs["kept"].to_numpy() & (pairs["train"].to_numpy() == training))
        at = at[np.argsort(keys[at], kind="stable")]
        rows = np.full((len(at), options.negatives), NONE, np.int64)
        if options.negatives_from != "log":
            add_shown(rows, row[at], keys[at], shown)
        if options.negatives_from != "impressions":
            add_drawn(rows, row[at], keys[at], clicked, pools.of[training])
        bare = int((rows == NONE).all(1).sum())
        own = number[at][:, None]
        titles = np.concatenate([own, np.where(rows == NONE, own, rows)], 1)
        query, clicks = query_first[bucket] + row[at], pairs["clicks"].to_numpy()[at]
        data = pair_records(query, titles, clicks, int(query_first[-1]), int(title_first[-1]))
        yield settings.written(split, bucket, len(at), data)
        counts |= {f"records {split}": len(at), f"without negatives {split}": bare}
        settings.progress.add("records written", len(at))
        if training:
            for place, one in enumerate(at[:SAMPLES].tolist()):
                text, numbers = (
                    queries["text"][int(row[one])],
                    dict.fromkeys(titles[place].tolist()),
                )
                sample = int(keys[one] >> np.uint64(1)), text, float(clicks[place]), [*numbers]
                yield TaggedOutput("samples", sample)
    columns = {
        "text": queries["text"].to_arrow(),
        "words": _word_numbers(queries["text"], settings, _prints(prints, shared_prints)),
        "clicked": _lists(row[was_clicked], number[was_clicked], len(queries)),
    }
    yield settings.written("queries", bucket, len(queries), table(columns))
    yield TaggedOutput("counts", counts)


def first_numbers(sizes: Sizes, settings: Settings) -> NDArray[np.int64]:
    """The number of each bucket's first text, and how many texts there are."""
    rows = np.zeros(settings.buckets, np.int64)
    for bucket, size in sizes:
        rows[bucket] = size
    return np.append(0, np.cumsum(rows))


def _numbered(titles: pl.DataFrame, first: NDArray[np.int64]) -> pl.DataFrame:
    """Titles with their numbers, of a bucket and a place there."""
    title = titles["title"].to_numpy()
    number = first[title >> PLACE_BITS] + (title & ((1 << PLACE_BITS) - 1))
    return titles.with_columns(number=pl.Series(number)).drop("title")


class _Pools:
    """The titles that negatives are drawn from, once a process."""

    def __init__(self, pool: Block, first: NDArray[np.int64], settings: Settings) -> None:
        options = settings.options
        found = _numbered(parts_of(pool[1:])["pool"][0].frame, first)
        size, alpha = options.negative_pool, options.negative_alpha
        self.of = [NegativePool(found, size, alpha, training=one) for one in (False, True)]


class _Prints:
    """The fingerprints of all words, in the order of their numbers; once a process."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.array = np.concatenate([np.frombuffer(data, np.uint64) for _, data in sorted(blocks)])


def _prints(blocks: Iterable[Block], shared: Shared) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = shared.acquire(lambda: _Prints(blocks)).array
    return found


def _word_numbers(texts: pl.Series, settings: Settings, prints: NDArray[np.uint64]) -> Any:
    """The words' numbers of each text, as Arrow lists."""
    rules = settings.options.rules
    flat, counts = words_read(all_words(normal_forms(texts, rules), rules), rules)
    words = flat.unique()
    numbers = np.searchsorted(prints, fingerprints(words).to_numpy()).astype(np.int32)
    known = pl.DataFrame({"word": words, "number": numbers}, schema_overrides={"word": pl.String})
    found = pl.DataFrame({"word": flat}, schema={"word": pl.String})
    found = found.join(known, on="word", how="left", maintain_order="left")
    return lists_of(found["number"].to_numpy(), counts)


def _lists(row: NDArray[np.int64], values: NDArray[np.int64], rows: int) -> Any:
    """For each row its values, increasing, as Arrow lists."""
    order = np.lexsort((values, row))
    return lists_of(values[order], np.bincount(row, minlength=rows))
