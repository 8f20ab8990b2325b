"""The steps from summed clicks to record shards: negatives, hashing, shuffling, writing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, PCollection, TaggedOutput
from apache_beam.utils.shared import Shared

from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.growth import grow
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.blocks import Block, Counts, keep, pack, step, unpack_all
from pipelines.negatives import NegativePool
from pipelines.options import PreprocessOptions
from pipelines.progress import Progress
from pipelines.records import PairRecord, TitleRow, query_records, write_shard
from pipelines.writing import Shards, write_part


@beam.ptransform_fn
def DrawNegatives(
    queries_and_titles: Mapping[str, PCollection],
    options: PreprocessOptions,
    shards: Shards,
    directory: str,
    pool: PCollection,
    store: str | None = None,
) -> Any:
    """Makes a record of each pair: its negatives, the counts of its titles, its place.

    Input:  a dictionary of PCollections: `queries` and `titles`, the main outputs of
            AggregateClicks and SumTitles.
    Output: main (place of a shard, block of PairRecord); files, paths of rows of
            `clicked_titles.tsv.gz`, sorted.
    """
    return (
        queries_and_titles
        | "Bring titles to queries" >> beam.CoGroupByKey()
        | "Draw negatives"
        >> step(
            _draw_negatives, options, shards, directory, AsIter(pool), Shared(), store, files=str
        )
    )


def _draw_negatives(
    element: tuple[int, dict[str, Iterable[bytes]]],
    options: PreprocessOptions,
    shards: Shards,
    directory: str,
    entries: Iterable[bytes],
    shared: Shared,
    store: str | None,
) -> Iterator[Any]:
    # One pool a process, not one a bundle.
    pool = shared.acquire(
        lambda: NegativePool(
            (entry for block in unpack_all(entries) for entry in block),
            options.negative_pool,
            options.negative_alpha,
        )
    )
    titles: dict[str, TitleRow] = {}
    for block in unpack_all(element[1]["titles"]):
        titles.update(block)
    shares: dict[int, list[PairRecord]] = {}
    clicked_titles: list[bytes] = []
    for queries in unpack_all(element[1]["queries"]):
        for query, clicks in queries.items():
            for record in query_records(query, clicks, titles, pool, options):
                shares.setdefault(shards.place(clicks.split, record[0]), []).append(record)
            query_id = fingerprint64(query)
            clicked_titles += [b"%d\t%d\n" % (query_id, one) for one in clicks.clicked_ids()]
    yield from keep(shares.items(), store)
    yield TaggedOutput("files", write_part(directory, "clicked", sorted(clicked_titles)))


@beam.ptransform_fn
def WriteShards(
    records: PCollection,
    options: PreprocessOptions,
    shards: Shards,
    directory: str,
    vocabulary: PCollection,
    progress: Progress,
) -> Any:
    """Hashes records to letter trigrams, shuffles them by key and writes gzip TFRecords.

    Input:  PCollection[(place of a shard, block of PairRecord)].
    Output: main (place, path), empty shards too; counts dict[str, int]; seen, for the report:
            block of (samples, Coverage), one a shard.
    """
    number = records.pipeline | "Number of shards" >> beam.Create([sum(shards.counts.values())])
    every = number | "Every shard" >> beam.FlatMap(_empty_blocks).with_output_types(Block)
    write = step(
        _write_shard,
        options,
        shards,
        directory,
        AsSingleton(vocabulary),
        progress,
        Shared(),
        main=tuple[int, str],
        counts=Counts,
        seen=bytes,
    )
    return (
        (records, every)
        | "Records and shards" >> beam.Flatten()
        | "Group shards" >> beam.GroupByKey()
        | "Write shards" >> write
    )


def _empty_blocks(places: int) -> Iterator[Block]:
    for place in range(places):
        yield place, pack([])


def _write_shard(
    element: tuple[int, Iterable[bytes]],
    options: PreprocessOptions,
    shards: Shards,
    directory: str,
    vocabulary: Vocabulary,
    progress: Progress,
    shared: Shared,
) -> Iterator[Any]:
    place, blocks = element
    split = shards.split(place)
    encoder = shared.acquire(lambda: RecordEncoder(vocabulary))
    records = [record for block in unpack_all(blocks) for record in block]
    written = write_shard(split, records, encoder, directory, progress)
    yield place, written.path
    negatives = Counter(f"negatives {split} {len(record[3]) - 1}" for record in records)
    yield TaggedOutput("counts", {f"records {split}": written.records, **negatives})
    yield TaggedOutput("seen", pack((written.samples, written.coverage)))


def make_vocabulary(
    ngrams: dict[str, int], options: PreprocessOptions, known: Vocabulary | None
) -> Vocabulary:
    """The most frequent letter trigrams of the training part and of unclicked corpus titles.

    Args:
        ngrams: how often each is there.
        options: how many are kept.
        known: an earlier vocabulary, whose trigrams keep their ids.
    """
    if known is not None:
        return grow(known, ngrams, options.vocabulary_size, options.min_ngram_count)
    return Vocabulary.from_counts(
        ngrams, options.vocabulary_size, options.rules, options.min_ngram_count
    )
