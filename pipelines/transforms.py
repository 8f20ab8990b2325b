"""The steps from click logs to clicks by query and by title, as Beam transforms.

Rows travel in blocks, not one by one: a worker sums a piece of a log in a dictionary, and what it
sends on is keyed by a *bucket*, a share of the queries (or titles, or sessions) by hash. Grouping
by bucket instead of by query costs a few elements instead of millions, bounds what a worker
holds to one bucket, and leaves every decision to a plain function of all that is known of a
query. No result depends on bundles, workers or the number of buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.metrics import Metrics
from apache_beam.typehints import with_output_types

from dssm_tf.tables.table import Reject
from dssm_tf.text.normalize import normalize
from pipelines.aggregation import (
    FROM_CORPUS,
    TitleCounts,
    bucket_of,
    count_ngrams,
    sum_queries,
    sum_titles,
)
from pipelines.blocks import (
    COUNTS,
    FILES,
    NAMESPACE,
    NGRAMS,
    POOL,
    REJECTS,
    SESSIONS,
    TITLES,
    Block,
    Counts,
    count_dropped,
    pack,
    unpack_all,
    until_error,
)
from pipelines.cleaning import (
    NO_CLICK,
    BlockList,
    PairCount,
    RowCounter,
    clean_pairs,
    clean_session,
)
from pipelines.negatives import pool_entries, smallest
from pipelines.options import PreprocessOptions
from pipelines.progress import Progress
from pipelines.sources import Piece, PieceReader, corpus_titles
from pipelines.writing import write_part

MAX_PAIRS_HELD = 200_000
MAX_REJECTS_HELD = 10_000


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
        counts: Counts = {}
        counter = RowCounter()
        rejects: list[Reject] = []
        reasons: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        rows = 0
        use_impressions = self._use_impressions
        for row in until_error(reader, counts):
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
        counts |= {"rows": rows, f"lines {element.number}": reader.lines}
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
        kept: dict[tuple[str, str], list[int]] = {}
        of_machines: dict[tuple[str, str], list[int]] = {}
        for blocks in sessions.values():
            for texts, count in clean_session(blocks, *self._limits, dropped):
                sums = kept if count[1] else of_machines
                known = sums.get(texts)
                sums[texts] = (
                    count if known is None else [a + b for a, b in zip(known, count, strict=True)]
                )
        pairs = [
            *clean_pairs(kept.items(), self._block_list, dropped),
            *clean_pairs(of_machines.items(), self._block_list, Counter()),
        ]
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


class ReadCorpus(beam.PTransform):
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Input:  PCollection[str], paths of tables with a column `title`.
    Output: main (bucket of titles, block of (FROM_CORPUS, {title: text})); counts dict[str, int].
    """

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self._fn = _ReadCorpusFile(buckets)

    def expand(self, pcoll: beam.PCollection[str]) -> Any:
        """Reads every file."""
        read = beam.ParDo(self._fn).with_outputs(COUNTS, main="main")
        return pcoll | "Spread files" >> beam.Reshuffle() | "Read titles" >> read


@with_output_types(Block, counts=Counts)
class _ReadCorpusFile(beam.DoFn):
    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process(self, element: str) -> Iterator[Any]:
        counts: Counts = {}
        titles = until_error(corpus_titles(element), counts)
        while batch := list(islice(titles, MAX_PAIRS_HELD)):
            shares: dict[int, dict[str, str]] = {}
            for text in batch:
                if title := normalize(text):
                    share = shares.setdefault(bucket_of(title, self._buckets), {})
                    share[title] = min(text, share.get(title, text))
            for bucket, found in shares.items():
                yield bucket, pack((FROM_CORPUS, found))
        yield pvalue.TaggedOutput(COUNTS, counts)


class SumTitles(beam.PTransform):
    """Sums what is known of each title, writes the title table and ranks titles for the pool.

    Input:  PCollection[(bucket of titles, block of (bucket of queries, {title: TitleCounts}))],
            and what `ReadCorpus` gives.
    Output: a dictionary of PCollections:
        main   (bucket of queries, block of {title: TitleRow}), the titles that the bucket needs
               and those that would lie in it as queries;
        pool   list[PoolEntry], the bucket's candidates;
        ngrams dict[str, int], letter trigrams of the corpus's titles without a training click;
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
            | "Sum titles"
            >> beam.ParDo(self._fn).with_outputs(POOL, FILES, NGRAMS, COUNTS, main="main")
        )


@with_output_types(Block, pool=bytes, files=tuple[str, str], ngrams=Counts, counts=Counts)
class _SumTitleBucket(beam.DoFn):
    def __init__(self, options: PreprocessOptions, directory: str) -> None:
        self._options = options
        self._directory = directory

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        options = self._options
        bucket, blocks = element
        totals, wanted, corpus = sum_titles(unpack_all(blocks))
        # A query of a title's text lies in the bucket of queries of the same number.
        for query_bucket, titles in {**wanted, bucket: totals}.items():
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
        counts: Counter[str] = Counter({"titles": len(totals), "titles corpus": len(corpus)})
        unclicked: Counter[str] = Counter()
        for key, ((_, _, queries), _) in totals.items():
            words = key.split(" ")
            counts["titles train"] += queries > 0
            counts[f"title words {len(words)}"] += 1
            if not queries and key in corpus:
                unclicked.update(words[: options.limits.max_words])
        if unclicked:
            yield pvalue.TaggedOutput(NGRAMS, count_ngrams(unclicked, options.limits))
        yield pvalue.TaggedOutput(COUNTS, dict(counts))


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
