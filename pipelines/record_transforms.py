"""The steps from summed clicks to record shards: negatives, hashing, shuffling, writing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints import with_output_types
from apache_beam.utils.shared import Shared

from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.blocks import COUNTS, FILES, SEEN, Block, Counts, pack, unpack_all
from pipelines.negatives import NegativePool
from pipelines.options import PreprocessOptions
from pipelines.progress import Progress
from pipelines.records import PairRecord, TitleRow, query_records, write_shard
from pipelines.writing import write_part


def shard_places(shards: Mapping[str, int]) -> list[tuple[str, int]]:
    """Every (split, shard), in order: its place is the key that records are grouped by."""
    return [(split, shard) for split, number in shards.items() for shard in range(number)]


class DrawNegatives(beam.PTransform):
    """Makes a record of each pair: its negatives, the counts of its titles, its place.

    Input:  a dictionary of PCollections: `queries` and `titles`, the main outputs of
            AggregateClicks and SumTitles.
    Output: main (place in `shard_places`, block of PairRecord); files ("title queries", path), the
            rows of `title_queries.tsv`, sorted.
    """

    def __init__(
        self, options: PreprocessOptions, shards: dict[str, int], directory: str, pool: Any
    ) -> None:
        super().__init__()
        self._fn = _DrawNegativesInBucket(options, shards, directory)
        self._pool = pool

    def expand(self, pcolls: Any) -> Any:
        """Draws for every bucket of queries."""
        return (
            pcolls
            | "Bring titles to queries" >> beam.CoGroupByKey()
            | "Draw negatives"
            >> beam.ParDo(self._fn, pvalue.AsIter(self._pool)).with_outputs(FILES, main="main")
        )


@with_output_types(Block, files=tuple[str, str])
class _DrawNegativesInBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, shards: dict[str, int], directory: str) -> None:
        self._options = options
        self._directory = directory
        places = shard_places(shards)
        self._shards = {split: (places.index((split, 0)), shards[split]) for split in shards}
        self._shared = Shared()  # one pool a process, not one a bundle

    def process(
        self, element: tuple[int, dict[str, Iterable[bytes]]], entries: Iterable[bytes]
    ) -> Iterator[Any]:
        options = self._options
        pool = self._shared.acquire(
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
        title_queries: list[bytes] = []
        for queries in unpack_all(element[1]["queries"]):
            for query, clicks in queries.items():
                for record in query_records(query, clicks, titles, pool, options):
                    first, number = self._shards[clicks.split]
                    place = first + record[0] % number
                    shares.setdefault(place, []).append(record)
                if query in titles:
                    ids = " ".join(map(str, clicks.clicked_ids()))
                    title_queries.append(f"{fingerprint64(query)}\t{ids}\n".encode())
        if title_queries:
            path = write_part(self._directory, "title-queries", sorted(title_queries))
            yield pvalue.TaggedOutput(FILES, ("title queries", path))
        for place, share in shares.items():
            yield place, pack(share)


class WriteShards(beam.PTransform):
    """Hashes records to letter trigrams, shuffles them by key and writes gzip TFRecords.

    Input:  PCollection[(place in `shard_places`, block of PairRecord)].
    Output: files (place, path); counts dict[str, int]; seen, for the report: block of
            (samples, Coverage), one a shard.
    """

    def __init__(
        self,
        options: PreprocessOptions,
        shards: dict[str, int],
        directory: str,
        ngrams: Any,
        progress: Progress,
    ) -> None:
        super().__init__()
        self._shards = shards
        self._ngrams = ngrams
        self._fn = _WriteShard(options, shards, directory, progress)

    def expand(self, pcoll: Any) -> Any:
        """Writes every shard, empty ones too."""
        number = pcoll.pipeline | "Number of shards" >> beam.Create([sum(self._shards.values())])
        every = number | "Every shard" >> beam.FlatMap(_empty_blocks).with_output_types(Block)
        return (
            (pcoll, every)
            | "Records and shards" >> beam.Flatten()
            | "Group shards" >> beam.GroupByKey()
            | "Write shards"
            >> beam.ParDo(self._fn, pvalue.AsSingleton(self._ngrams)).with_outputs(
                SEEN, COUNTS, main=FILES
            )
        )


def _empty_blocks(places: int) -> Iterator[Block]:
    for place in range(places):
        yield place, pack([])


@with_output_types(tuple[int, str], seen=bytes, counts=Counts)
class _WriteShard(beam.DoFn):
    def __init__(
        self,
        options: PreprocessOptions,
        shards: dict[str, int],
        directory: str,
        progress: Progress,
    ) -> None:
        self._options = options
        self._shards = shards
        self._directory = directory
        self._progress = progress
        self._shared = Shared()

    def setup(self) -> None:
        self._places = shard_places(self._shards)

    def process(
        self, element: tuple[int, Iterable[bytes]], ngrams: dict[str, int]
    ) -> Iterator[Any]:
        place, blocks = element
        split, _ = self._places[place]
        encoder = self._shared.acquire(
            lambda: RecordEncoder(make_vocabulary(ngrams, self._options))
        )
        records = [record for block in unpack_all(blocks) for record in block]
        written = write_shard(split, records, encoder, self._directory, self._progress)
        yield place, written.path
        yield pvalue.TaggedOutput(COUNTS, {f"records {split}": written.records})
        yield pvalue.TaggedOutput(SEEN, pack((written.samples, written.coverage)))


def make_vocabulary(ngrams: dict[str, int], options: PreprocessOptions) -> Vocabulary:
    """The most frequent letter trigrams of the training part and of unclicked corpus titles."""
    return Vocabulary.from_counts(
        ngrams, options.vocabulary_size, options.min_ngram_count, options.limits
    )
