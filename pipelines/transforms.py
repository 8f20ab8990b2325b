"""The steps from click logs to clicks by query and by title, as Beam transforms.

Rows travel in blocks, not one by one: a worker sums a piece of a log in a dictionary, and what it
sends on is keyed by a *bucket*, a share of the queries (or titles, or sessions) by hash. Grouping
by bucket instead of by query costs a few elements instead of millions, bounds what a worker
holds to one bucket, and leaves every decision to a plain function of all that is known of a
query. No result depends on bundles, workers or the number of buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection, TaggedOutput

from dssm_tf.tables.table import Layout, Reject
from dssm_tf.text.fields import split_fields
from dssm_tf.text.rules import Rules
from pipelines.aggregation import (
    FROM_CORPUS,
    TitleCounts,
    bucket_of,
    count_ngrams,
    sum_queries,
    sum_titles,
)
from pipelines.blocks import (
    NAMESPACE,
    Block,
    Counts,
    count_dropped,
    keep,
    step,
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


@beam.ptransform_fn
def ReadClicks(
    pieces: PCollection,
    options: PreprocessOptions,
    block_list: BlockList,
    buckets: int,
    progress: Progress,
    store: str | None = None,
    weights: Sequence[int] = (),
) -> Any:
    """Reads pieces of logs, checks each row and sums the good ones.

    Input:  PCollection[Piece].
    Output: a dictionary of PCollections:
        main     (bucket of queries, block of PairCount), rows without a session;
        sessions (bucket of sessions, block of {session: counts by pair});
        rejects  (piece number, block of Reject), line numbers counted within the piece;
        counts   dict[str, int].
    """
    return pieces | "Read and sum rows" >> step(
        _read_piece,
        options,
        block_list,
        buckets,
        progress,
        store,
        weights,
        sessions=Block,
        rejects=Block,
        counts=Counts,
    )


def _read_piece(
    piece: Piece,
    options: PreprocessOptions,
    block_list: BlockList,
    buckets: int,
    progress: Progress,
    store: str | None,
    weights: Sequence[int],
) -> Iterator[Any]:
    reader = PieceReader(piece, options.layout, positions=bool(weights))
    use_impressions = options.negatives_from != "log"
    counts: Counts = {}
    counter = RowCounter(weights)
    rejects: list[Reject] = []
    reasons: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    rows = clicks = placed = clicks_rejected = 0
    for _, row in until_error(reader, counts):
        rows += 1
        if isinstance(row, Reject):
            rejects.append(row)
            reasons[row.reason] += 1
            clicks_rejected += row.clicks
            if len(rejects) == MAX_REJECTS_HELD:
                yield from _tagged("rejects", keep([(piece.number, rejects)], store))
                rejects = []
        elif row[2] or (use_impressions and row[3]):
            clicks += row[2]
            placed += row[2] if row[6] else 0
            counter.add(row)
            if counter.size == MAX_PAIRS_HELD:
                yield from _blocks_of_rows(counter, block_list, buckets, dropped, store)
                counter = RowCounter(weights)
        else:
            dropped[NO_CLICK] += 1
        if not rows % 4096:
            progress.add("rows read", 4096)
    progress.add("rows read", rows % 4096)
    yield from _blocks_of_rows(counter, block_list, buckets, dropped, store)
    if rejects:
        yield from _tagged("rejects", keep([(piece.number, rejects)], store))
    counts |= {
        "rows": rows,
        "clicks read": clicks + clicks_rejected,
        "clicks rejected": clicks_rejected,
        "clicks placed": placed,
        f"lines {piece.number}": reader.lines,
    }
    Metrics.counter(NAMESPACE, "rows").inc(rows)
    for reason, number in reasons.items():
        Metrics.counter(NAMESPACE, f"rejected: {reason}").inc(number)
        counts[f"rejected {reason}"] = number
    yield TaggedOutput("counts", counts | count_dropped(dropped))


def _blocks_of_rows(
    counter: RowCounter,
    block_list: BlockList,
    buckets: int,
    dropped: Counter[str],
    store: str | None,
) -> Iterator[Any]:
    yield from _by_bucket(clean_pairs(counter.pairs.items(), block_list, dropped), buckets, store)
    shares: dict[int, dict[str, Any]] = {}
    for session, counts in counter.sessions.items():
        shares.setdefault(bucket_of(session, buckets), {})[session] = counts
    yield from _tagged("sessions", keep(shares.items(), store))


def _tagged(tag: str, elements: Iterable[Any]) -> Iterator[TaggedOutput]:
    return (TaggedOutput(tag, element) for element in elements)


def _by_bucket(pairs: Iterable[PairCount], buckets: int, store: str | None) -> Iterator[Block]:
    """Pairs as blocks, each of one bucket of queries."""
    shares: dict[int, list[PairCount]] = {}
    for pair in pairs:
        shares.setdefault(bucket_of(pair[0], buckets), []).append(pair)
    yield from keep(shares.items(), store)


@beam.ptransform_fn
def CleanSessions(
    sessions: PCollection,
    options: PreprocessOptions,
    block_list: BlockList,
    buckets: int,
    store: str | None = None,
) -> Any:
    """Drops sessions of bots and spam, and clicks repeated within a session.

    Input:  PCollection[(bucket of sessions, block of {session: counts by pair})].
    Output: main (bucket of queries, block of PairCount); counts dict[str, int].
    """
    return (
        sessions
        | "Group sessions" >> beam.GroupByKey()
        | "Clean sessions"
        >> step(_clean_bucket, options, block_list, buckets, store, counts=Counts)
    )


def _clean_bucket(
    bucket: tuple[int, Iterable[bytes]],
    options: PreprocessOptions,
    block_list: BlockList,
    buckets: int,
    store: str | None,
) -> Iterator[Any]:
    limits = options.max_queries_per_session, options.max_clicks_per_session
    sessions: dict[str, list[Any]] = {}
    for block in unpack_all(bucket[1]):
        for session, counts in block.items():
            sessions.setdefault(session, []).append(counts)
    dropped: Counter[str] = Counter()
    kept: dict[tuple[str, str], list[int]] = {}
    of_machines: dict[tuple[str, str], list[int]] = {}
    for blocks in sessions.values():
        for texts, count in clean_session(blocks, *limits, dropped, options.rules):
            sums = kept if count[1] else of_machines
            known = sums.get(texts, [0, 0, 0])
            sums[texts] = [a + b for a, b in zip(known, count, strict=True)]
    pairs = [
        *clean_pairs(kept.items(), block_list, dropped),
        *clean_pairs(of_machines.items(), block_list, Counter()),
    ]
    yield from _by_bucket(pairs, buckets, store)
    yield TaggedOutput("counts", count_dropped(dropped) | {"sessions": len(sessions)})


@beam.ptransform_fn
def AggregateClicks(
    pairs: PCollection, options: PreprocessOptions, buckets: int, store: str | None = None
) -> Any:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Input:  PCollection[(bucket of queries, block of PairCount)], duplicates allowed.
    Output: a dictionary of PCollections:
        main   (bucket of queries, block of {query: QueryClicks});
        titles (bucket of titles, block of (bucket of queries, {title: TitleCounts}));
        ngrams dict[str, int], letter trigrams of the training part;
        counts dict[str, int].
    """
    return (
        pairs
        | "Group queries" >> beam.GroupByKey()
        | "Sum clicks"
        >> step(_sum_bucket, options, buckets, store, titles=Block, ngrams=Counts, counts=Counts)
    )


def _sum_bucket(
    element: tuple[int, Iterable[bytes]],
    options: PreprocessOptions,
    buckets: int,
    store: str | None,
) -> Iterator[Any]:
    bucket, blocks = element
    found = sum_queries(unpack_all(blocks), options)
    yield from keep([(bucket, found.queries)], store)
    shares: dict[int, dict[str, TitleCounts]] = {}
    for title, counts in found.titles.items():
        shares.setdefault(bucket_of(title, buckets), {})[title] = counts
    titles = ((title_bucket, (bucket, share)) for title_bucket, share in shares.items())
    yield from _tagged("titles", keep(titles, store))
    yield TaggedOutput("ngrams", count_ngrams(found.words, options.rules))
    yield TaggedOutput("counts", {**found.counts, **count_dropped(found.dropped)})


@beam.ptransform_fn
def ReadCorpus(
    paths: PCollection, options: PreprocessOptions, buckets: int, store: str | None = None
) -> Any:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Input:  PCollection[str], paths of tables with a column `title`.
    Output: main (bucket of titles, block of (FROM_CORPUS, {title: text})); counts dict[str, int].
    """
    return (
        paths
        | "Spread files" >> beam.Reshuffle()
        | "Read titles"
        >> step(_read_corpus, options.layout, options.rules, buckets, store, counts=Counts)
    )


def _read_corpus(
    path: str, layout: Layout, rules: Rules, buckets: int, store: str | None
) -> Iterator[Any]:
    counts: Counts = {}
    titles = until_error(corpus_titles(path, layout), counts)
    while batch := list(islice(titles, MAX_PAIRS_HELD)):
        shares: dict[int, dict[str, str]] = {}
        for text in batch:
            if title := rules.key(text):
                share = shares.setdefault(bucket_of(title, buckets), {})
                share[title] = min(text, share.get(title, text))
        yield from keep(((at, (FROM_CORPUS, found)) for at, found in shares.items()), store)
    yield TaggedOutput("counts", counts)


@beam.ptransform_fn
def SumTitles(
    titles: PCollection, options: PreprocessOptions, directory: str, store: str | None = None
) -> Any:
    """Sums what is known of each title, writes the title table and ranks titles for the pool.

    Input:  PCollection[(bucket of titles, block of (bucket of queries, {title: TitleCounts}))],
            and what `ReadCorpus` gives.
    Output: a dictionary of PCollections:
        main   (bucket of queries, block of {title: TitleRow}), the titles that the bucket needs;
        pool   block of PoolEntry, the bucket's candidates;
        ngrams dict[str, int], letter trigrams of the corpus's titles without a training click;
        files  path of a table, most clicked first;
        counts dict[str, int].
    """
    types = {"pool": bytes, "files": str, "ngrams": Counts, "counts": Counts}
    return (
        titles
        | "Group titles" >> beam.GroupByKey()
        | "Sum titles" >> step(_sum_title_bucket, options, directory, store, **types)
    )


def _sum_title_bucket(
    element: tuple[int, Iterable[bytes]],
    options: PreprocessOptions,
    directory: str,
    store: str | None,
) -> Iterator[Any]:
    bucket, blocks = element
    totals, wanted, corpus = sum_titles(unpack_all(blocks))
    rows_wanted = (
        (query_bucket, {title: totals[title][0] for title in titles})
        for query_bucket, titles in wanted.items()
    )
    yield from keep(rows_wanted, store)
    entries = pool_entries(totals.items(), options.negative_alpha, options.seed)
    chosen = keep([(bucket, smallest(entries, options.negative_pool))], store)
    yield from _tagged("pool", (block for _, block in chosen))
    rows = sorted((-clicks, text, queries) for (text, clicks, queries), _ in totals.values())
    lines = (f"{text}\t{-clicks}\t{queries}\n".encode() for clicks, text, queries in rows)
    yield TaggedOutput("files", write_part(directory, "titles", lines))
    counts: Counter[str] = Counter({"titles": len(totals), "titles corpus": len(corpus)})
    unclicked: Counter[str] = Counter()
    fields = options.fields
    for key, ((text, _, queries), _) in totals.items():
        words = options.rules.words(key)
        if len(fields) > 1:
            present = enumerate(split_fields(text, len(fields)))
            counts.update(f"field {at}" for at, one in present if one.strip())
        counts["titles train"] += queries > 0
        counts[f"title words {len(words)}"] += 1
        if not queries and key in corpus:
            unclicked.update(words[: options.rules.max_words])
    yield TaggedOutput("ngrams", count_ngrams(unclicked, options.rules))
    yield TaggedOutput("counts", dict(counts))


@beam.ptransform_fn
def WriteRejects(rejects: PCollection, directory: str) -> Any:
    """Writes the rejects of each piece to a file of their own, in the order of lines.

    Input:  PCollection[(piece number, block of Reject)].
    Output: PCollection[(piece number, path)].
    """
    return (
        rejects
        | "Group rejects" >> beam.GroupByKey()
        | "Write rejects" >> beam.Map(_write_rejects, directory)
    )


def _write_rejects(element: tuple[int, Iterable[bytes]], directory: str) -> tuple[int, str]:
    number, blocks = element
    rejects = sorted(reject for block in unpack_all(blocks) for reject in block)
    lines = (
        f"{line}\t{reason}\t{clicks}\t{text}\n".encode() for line, reason, text, clicks in rejects
    )
    return number, write_part(directory, "rejects", lines)
