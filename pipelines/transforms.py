"""The steps from click logs to record shards, as Beam transforms.

Rows travel in blocks, not one by one: a worker sums a piece of a log in a dictionary, and what it
sends on is keyed by a *bucket*, a share of the queries (or titles, or sessions) by hash. Grouping
by bucket instead of by query costs a few elements instead of millions, bounds what a worker
holds to one bucket, and leaves every decision to a plain function of all that is known of a
query. No result depends on bundles, workers or the number of buckets.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.metrics import Metrics
from apache_beam.typehints import with_output_types
from apache_beam.utils.shared import Shared

from dssm_tf.data.click_log import Reject
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.aggregation import (
    QueryClicks,
    TitleCounts,
    add_counts,
    bucket_of,
    count_ngrams,
    sum_queries,
    sum_titles,
)
from pipelines.cleaning import (
    NO_CLICK,
    BlockList,
    PairCount,
    RowCounter,
    clean_pairs,
    clean_session,
)
from pipelines.negatives import NegativePool, PoolEntry, pool_entries, smallest
from pipelines.options import PreprocessOptions
from pipelines.progress import Progress
from pipelines.records import PairRecord, TitleRow, query_records, write_shard
from pipelines.sources import Piece, PieceReader
from pipelines.writing import write_part

NAMESPACE = "preprocess"
COUNTS, REJECTS, SESSIONS, TITLES, NGRAMS, POOL, FILES, SEEN = (
    "counts",
    "rejects",
    "sessions",
    "titles",
    "ngrams",
    "pool",
    "files",
    "seen",
)
Block = tuple[int, bytes]
"""A bucket's, piece's or shard's number, and some of what belongs to it, packed."""
Counts = dict[str, int]
MAX_PAIRS_HELD = 200_000
MAX_REJECTS_HELD = 10_000


def pack(value: object) -> bytes:
    """One block as bytes: equal texts inside are stored once."""
    return pickle.dumps(value, protocol=5)


unpack: Callable[[bytes], Any] = pickle.loads


def unpack_all(blocks: Iterable[bytes]) -> Iterator[Any]:
    """The blocks of a group, one at a time."""
    return map(unpack, blocks)


def count_dropped(dropped: Counter[str]) -> dict[str, int]:
    """Reports drop reasons to Beam's own counters and names them for ours."""
    for reason, rows in dropped.items():
        Metrics.counter(NAMESPACE, f"dropped: {reason}").inc(rows)
    return {f"dropped {reason}": rows for reason, rows in dropped.items() if rows}


def by_bucket(pairs: Iterable[PairCount], buckets: int) -> Iterator[tuple[int, bytes]]:
    """Pairs as blocks, each of one bucket of queries."""
    shares: dict[int, list[PairCount]] = {}
    for pair in pairs:
        shares.setdefault(bucket_of(pair[0], buckets), []).append(pair)
    for bucket, share in shares.items():
        yield bucket, pack(share)


class ReadClicks(beam.PTransform):
    """Reads pieces of logs, checks each row and sums the good ones.

    Input:  PCollection[Piece].
    Output: a dictionary of PCollections:
        main     (bucket of queries, block of PairCount), rows without a session;
        sessions (bucket of sessions, block of {session: counts by pair});
        rejects  (piece number, block of Reject), line numbers counted within the piece;
        counts   dict[str, int].
    """

    def __init__(
        self, options: PreprocessOptions, block_list: BlockList, buckets: int, progress: Progress
    ) -> None:
        super().__init__()
        self._fn = _ReadPiece(options, block_list, buckets, progress)

    def expand(self, pcoll: beam.PCollection[Piece]) -> Any:
        """Reads every piece."""
        return pcoll | "Read and sum rows" >> beam.ParDo(self._fn).with_outputs(
            SESSIONS, REJECTS, COUNTS, main="main"
        )


@with_output_types(Block, sessions=Block, rejects=Block, counts=Counts)
class _ReadPiece(beam.DoFn):
    def __init__(
        self, options: PreprocessOptions, block_list: BlockList, buckets: int, progress: Progress
    ) -> None:
        self._use_impressions = options.negatives_from != "log"
        self._block_list = block_list
        self._buckets = buckets
        self._progress = progress

    def process(self, element: Piece) -> Iterator[Any]:
        reader = PieceReader(element)
        counter = RowCounter()
        rejects: list[Reject] = []
        reasons: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        rows = 0
        use_impressions = self._use_impressions
        for row in reader:
            rows += 1
            if isinstance(row, Reject):
                rejects.append(row)
                reasons[row.reason] += 1
                if len(rejects) == MAX_REJECTS_HELD:
                    yield pvalue.TaggedOutput(REJECTS, (element.number, pack(rejects)))
                    rejects = []
            elif row[2] or (use_impressions and row[3]):
                counter.add(row)
                if counter.size == MAX_PAIRS_HELD:
                    yield from self._flush(counter, dropped)
                    counter = RowCounter()
            else:
                dropped[NO_CLICK] += 1
            if not rows % 4096:
                self._progress.add("rows read", 4096)
        self._progress.add("rows read", rows % 4096)
        yield from self._flush(counter, dropped)
        if rejects:
            yield pvalue.TaggedOutput(REJECTS, (element.number, pack(rejects)))
        counts = {"rows": rows, f"lines {element.number}": reader.lines}
        Metrics.counter(NAMESPACE, "rows").inc(rows)
        for reason, number in reasons.items():
            Metrics.counter(NAMESPACE, f"rejected: {reason}").inc(number)
            counts[f"rejected {reason}"] = number
        yield pvalue.TaggedOutput(COUNTS, counts | count_dropped(dropped))

    def _flush(self, counter: RowCounter, dropped: Counter[str]) -> Iterator[Any]:
        pairs = clean_pairs(counter.pairs.items(), self._block_list, dropped)
        yield from by_bucket(pairs, self._buckets)
        shares: dict[int, dict[str, Any]] = {}
        for session, counts in counter.sessions.items():
            shares.setdefault(bucket_of(session, self._buckets), {})[session] = counts
        for bucket, share in shares.items():
            yield pvalue.TaggedOutput(SESSIONS, (bucket, pack(share)))


class CleanSessions(beam.PTransform):
    """Drops sessions of bots and spam, and clicks repeated within a session.

    Input:  PCollection[(bucket of sessions, block of {session: counts by pair})].
    Output: main (bucket of queries, block of PairCount); counts dict[str, int].
    """

    def __init__(self, options: PreprocessOptions, block_list: BlockList, buckets: int) -> None:
        super().__init__()
        self._fn = _CleanSessionBucket(options, block_list, buckets)

    def expand(self, pcoll: Any) -> Any:
        """Cleans every bucket of sessions."""
        return (
            pcoll
            | "Group sessions" >> beam.GroupByKey()
            | "Clean sessions" >> beam.ParDo(self._fn).with_outputs(COUNTS, main="main")
        )


@with_output_types(Block, counts=Counts)
class _CleanSessionBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, block_list: BlockList, buckets: int) -> None:
        self._limits = options.max_queries_per_session, options.max_clicks_per_session
        self._block_list = block_list
        self._buckets = buckets

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        sessions: dict[str, list[Any]] = {}
        for block in unpack_all(element[1]):
            for session, counts in block.items():
                sessions.setdefault(session, []).append(counts)
        dropped: Counter[str] = Counter()
        counter = RowCounter()
        for blocks in sessions.values():
            for texts, count in clean_session(blocks, *self._limits, dropped):
                known = counter.pairs.get(texts)
                counter.pairs[texts] = (
                    count if known is None else [a + b for a, b in zip(known, count, strict=True)]
                )
        pairs = clean_pairs(counter.pairs.items(), self._block_list, dropped)
        yield from by_bucket(pairs, self._buckets)
        counts = count_dropped(dropped)
        counts["sessions"] = len(sessions)
        yield pvalue.TaggedOutput(COUNTS, counts)


class AggregateClicks(beam.PTransform):
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Input:  PCollection[(bucket of queries, block of PairCount)], duplicates allowed.
    Output: a dictionary of PCollections:
        main   (bucket of queries, block of {query: QueryClicks});
        titles (bucket of titles, block of (bucket of queries, {title: TitleCounts}));
        ngrams dict[str, int], letter trigrams of the training part;
        counts dict[str, int].
    """

    def __init__(self, options: PreprocessOptions, buckets: int) -> None:
        super().__init__()
        self._fn = _AggregateBucket(options, buckets)

    def expand(self, pcoll: Any) -> Any:
        """Sums every bucket of queries."""
        return (
            pcoll
            | "Group queries" >> beam.GroupByKey()
            | "Sum clicks" >> beam.ParDo(self._fn).with_outputs(TITLES, NGRAMS, COUNTS, main="main")
        )


@with_output_types(Block, titles=Block, ngrams=Counts, counts=Counts)
class _AggregateBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, buckets: int) -> None:
        self._options = options
        self._buckets = buckets

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        bucket, blocks = element
        found = sum_queries(unpack_all(blocks), self._options)
        yield bucket, pack(found.queries)
        shares: dict[int, dict[str, TitleCounts]] = {}
        for title, counts in found.titles.items():
            shares.setdefault(bucket_of(title, self._buckets), {})[title] = counts
        for title_bucket, share in shares.items():
            yield pvalue.TaggedOutput(TITLES, (title_bucket, pack((bucket, share))))
        yield pvalue.TaggedOutput(NGRAMS, count_ngrams(found.words, self._options.limits))
        yield pvalue.TaggedOutput(COUNTS, {**found.counts, **count_dropped(found.dropped)})


class SumTitles(beam.PTransform):
    """Sums what is known of each title, writes the title table and ranks titles for the pool.

    Input:  PCollection[(bucket of titles, block of (bucket of queries, {title: TitleCounts}))].
    Output: a dictionary of PCollections:
        main   (bucket of queries, block of {title: TitleRow}), what that bucket needs;
        pool   list[PoolEntry], the bucket's candidates;
        files  ("titles", path), most clicked first;
        counts dict[str, int].
    """

    def __init__(self, options: PreprocessOptions, directory: str) -> None:
        super().__init__()
        self._fn = _SumTitleBucket(options, directory)

    def expand(self, pcoll: Any) -> Any:
        """Sums every bucket of titles."""
        return (
            pcoll
            | "Group titles" >> beam.GroupByKey()
            | "Sum titles" >> beam.ParDo(self._fn).with_outputs(POOL, FILES, COUNTS, main="main")
        )


@with_output_types(Block, pool=bytes, files=tuple[str, str], counts=Counts)
class _SumTitleBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, directory: str) -> None:
        self._options = options
        self._directory = directory

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        options = self._options
        totals, wanted = sum_titles(unpack_all(element[1]))
        for query_bucket, titles in wanted.items():
            yield query_bucket, pack({title: totals[title][0] for title in titles})
        entries = pool_entries(totals.items(), options.negative_alpha, options.seed)
        yield pvalue.TaggedOutput(POOL, pack(smallest(entries, options.negative_pool)))
        rows = sorted((-clicks, text, queries) for (text, clicks, queries), _ in totals.values())
        path = write_part(
            self._directory,
            "titles",
            (f"{text}\t{-clicks}\t{queries}\n".encode() for clicks, text, queries in rows),
        )
        yield pvalue.TaggedOutput(FILES, ("titles", path))
        counts: Counter[str] = Counter({"titles": len(totals)})
        for key, ((_, _, queries), _) in totals.items():
            counts["titles train"] += queries > 0
            counts[f"title words {key.count(' ') + 1}"] += 1
        yield pvalue.TaggedOutput(COUNTS, dict(counts))


class SumCounts(beam.CombineFn):
    """Adds dictionaries of counts key by key."""

    def create_accumulator(self) -> dict[str, int]:  # noqa: D102
        return {}

    def add_input(self, accumulator: dict[str, int], element: dict[str, int]) -> dict[str, int]:  # noqa: D102
        add_counts(accumulator, element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[str, int]]) -> dict[str, int]:  # noqa: D102
        total: dict[str, int] = {}
        for accumulator in accumulators:
            add_counts(total, accumulator)
        return total

    def extract_output(self, accumulator: dict[str, int]) -> dict[str, int]:  # noqa: D102
        return accumulator


class SmallestRanks(beam.CombineFn):
    """Keeps the pool's titles, and one more, of the buckets' candidates.

    Input and output: blocks of PoolEntry.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def create_accumulator(self) -> list[PoolEntry]:  # noqa: D102
        return []

    def add_input(self, accumulator: list[PoolEntry], element: bytes) -> list[PoolEntry]:  # noqa: D102
        accumulator += unpack(element)
        if len(accumulator) > 2 * self._size:
            return smallest(accumulator, self._size)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[PoolEntry]]) -> list[PoolEntry]:  # noqa: D102
        return smallest((entry for one in accumulators for entry in one), self._size)

    def extract_output(self, accumulator: list[PoolEntry]) -> bytes:  # noqa: D102
        return pack(accumulator)


def shard_places(shards: Mapping[str, int]) -> list[tuple[str, int]]:
    """Every (split, shard), in order: its place is the key that records are grouped by."""
    return [(split, shard) for split, number in shards.items() for shard in range(number)]


class DrawNegatives(beam.PTransform):
    """Makes a record of each pair: its negatives, the counts of its titles, its place.

    Input:  a dictionary of PCollections: `queries` and `titles`, the main outputs of
            AggregateClicks and SumTitles.
    Output: PCollection[(place in `shard_places`, block of PairRecord)].
    """

    def __init__(self, options: PreprocessOptions, shards: dict[str, int], pool: Any) -> None:
        super().__init__()
        self._fn = _DrawNegativesInBucket(options, shards)
        self._pool = pool

    def expand(self, pcolls: Any) -> Any:
        """Draws for every bucket of queries."""
        return (
            pcolls
            | "Bring titles to queries" >> beam.CoGroupByKey()
            | "Draw negatives" >> beam.ParDo(self._fn, pvalue.AsIter(self._pool))
        )


@with_output_types(Block)
class _DrawNegativesInBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, shards: dict[str, int]) -> None:
        self._options = options
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
        for queries in unpack_all(element[1]["queries"]):
            for query, clicks in queries.items():
                for record in query_records(query, clicks, titles, pool, options):
                    first, number = self._shards[clicks.split]
                    place = first + record[0] % number
                    shares.setdefault(place, []).append(record)
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
        empty = [(place, pack([])) for place in range(len(shard_places(self._shards)))]
        every = pcoll.pipeline | "Every shard" >> beam.Create(empty)
        return (
            (pcoll, every)
            | "Records and shards" >> beam.Flatten()
            | "Group shards" >> beam.GroupByKey()
            | "Write shards"
            >> beam.ParDo(self._fn, pvalue.AsSingleton(self._ngrams)).with_outputs(
                SEEN, COUNTS, main=FILES
            )
        )


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

    def process(
        self, element: tuple[int, Iterable[bytes]], ngrams: dict[str, int]
    ) -> Iterator[Any]:
        place, blocks = element
        split, _ = shard_places(self._shards)[place]
        encoder = self._shared.acquire(
            lambda: RecordEncoder(make_vocabulary(ngrams, self._options))
        )
        written = write_shard(
            split,
            [record for block in unpack_all(blocks) for record in block],
            encoder,
            self._directory,
            self._progress,
        )
        yield place, written.path
        yield pvalue.TaggedOutput(COUNTS, {f"records {split}": written.records})
        yield pvalue.TaggedOutput(SEEN, pack((written.samples, written.coverage)))


class WriteRejects(beam.PTransform):
    """Writes the rejects of each piece to a file of their own.

    Input:  PCollection[(piece number, block of Reject)].
    Output: PCollection[(piece number, path)].
    """

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._directory = directory

    def expand(self, pcoll: Any) -> Any:
        """Writes every piece's rejects in line order."""
        return (
            pcoll
            | "Group rejects" >> beam.GroupByKey()
            | "Write rejects" >> beam.Map(_write_rejects, self._directory)
        )


def _write_rejects(element: tuple[int, Iterable[bytes]], directory: str) -> tuple[int, str]:
    number, blocks = element
    rejects = sorted(reject for block in unpack_all(blocks) for reject in block)
    lines = (f"{line}\t{reason}\t{text}\n".encode() for line, reason, text in rejects)
    return number, write_part(directory, "rejects", lines)


def make_vocabulary(ngrams: dict[str, int], options: PreprocessOptions) -> Vocabulary:
    """The most frequent letter trigrams of the training part."""
    return Vocabulary.from_counts(
        ngrams, options.vocabulary_size, options.min_ngram_count, options.limits
    )


__all__ = [
    "AggregateClicks",
    "CleanSessions",
    "DrawNegatives",
    "QueryClicks",
    "ReadClicks",
    "SmallestRanks",
    "SumCounts",
    "SumTitles",
    "WriteRejects",
    "WriteShards",
]
