"""The steps from pieces of logs to sums of queries, titles and words.

Rows travel in frames, not one by one, and each frame belongs to a *bucket*, a share of the queries
(or titles, words, sessions) by the first bits of their fingerprints. Grouping by bucket costs a few
elements instead of millions, bounds what a worker holds to one bucket, and leaves every decision to
a plain function of all that is known of a query. Texts are numbered without a sort of all: a
number is a text's place in its bucket and the sum of the buckets before. No result depends on
bundles, workers, or the order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import polars as pl
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from dssm_tf.tables.layout import Reject
from pipelines.cleaning import (
    NO_CLICK,
    TEXTS,
    BlockList,
    Cleaned,
    clean_sessions,
    sum_rows,
    weighted,
)
from pipelines.frames import NAMESPACE, Counts, count_dropped, parts_of, until_error
from pipelines.output import write_part
from pipelines.settings import Settings
from pipelines.sources import Piece, PieceReader, corpus_titles
from pipelines.sums import places_for, sum_queries, sum_titles, sum_words
from pipelines.texts import fingerprints, normal_forms

MAX_ROWS_HELD = 500_000
Group = tuple[int, Iterable[bytes]]


def read_piece(
    piece: Piece, settings: Settings, block_list: BlockList, weights: Sequence[int]
) -> Iterator[Any]:
    """Reads a piece of a log, checks each row and sums the good ones.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits);
        rejects  (piece number, rejects), line numbers counted within the piece;
        counts   dict[str, int].
    """
    options = settings.options
    reader = PieceReader(piece, options.layout, positions=bool(weights))
    used = pl.col("clicks") > 0
    if options.negatives_from != "log":
        used |= pl.col("impressions") > 0
    counts: Counts = {}
    found: Counter[str] = Counter()
    held: list[pl.DataFrame] = []
    for rows, rejects in until_error(reader, counts):
        settings.progress.add("rows read", len(rows) + len(rejects))
        found["rows"] += len(rows) + len(rejects)
        found["clicks rejected"] += sum(one.clicks for one in rejects)
        found["clicks read"] += int(rows["clicks"].sum()) + sum(one.clicks for one in rejects)
        found["clicks placed"] += int(rows.filter(pl.col("position") > 0)["clicks"].sum())
        found.update(f"rejected {one.reason}" for one in rejects)
        if rejects:
            frame = pl.DataFrame(rejects, schema=Reject._fields, orient="row")
            yield from settings.send("rejects", frame, "rejects", to=piece.number)
        good = weighted(rows.filter(used), weights)
        found[f"dropped {NO_CLICK}"] += len(rows) - len(good)
        held.append(good.select("query", "title", "session", "clicks", "weighted"))
        if sum(map(len, held)) >= MAX_ROWS_HELD:
            yield from _summed(pl.concat(held), settings, block_list)
            held = []
    if held:
        yield from _summed(pl.concat(held), settings, block_list)
    Metrics.counter(NAMESPACE, "rows").inc(found["rows"])
    found[f"lines {piece.number}"] = reader.lines
    yield TaggedOutput("counts", counts | {name: n for name, n in found.items() if n})


def _summed(rows: pl.DataFrame, settings: Settings, block_list: BlockList) -> Iterator[Any]:
    found, visits = sum_rows(rows, settings.options.rules, block_list)
    yield from _cleaned(found, settings)
    yield from settings.send("visits", visits, "sessions", by="s")


def _cleaned(found: Cleaned, settings: Settings) -> Iterator[Any]:
    yield from settings.send("pairs", found.pairs, by="q")
    yield from settings.send("texts", found.queries)
    yield from settings.send("texts", found.titles, "titles")
    yield TaggedOutput("counts", count_dropped(found.dropped))


def clean_bucket(group: Group, settings: Settings) -> Iterator[Any]:
    """Drops sessions of bots and spam, and clicks repeated within a session.

    Yields:
        Main, titles and counts, as `read_piece` does.
    """
    options = settings.options
    visits = pl.concat(part.frame for part in parts_of(group[1])["visits"])
    limits = options.max_queries_per_session, options.max_clicks_per_session
    yield from _cleaned(clean_sessions(visits, *limits), settings)
    yield TaggedOutput("counts", {"sessions": visits["s"].n_unique()})


def read_corpus(path: str, settings: Settings) -> Iterator[Any]:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Yields:
        main   (bucket of titles, corpus);
        counts dict[str, int].
    """
    counts: Counts = {}
    titles = until_error(corpus_titles(path, settings.options.layout), counts)
    while texts := [*islice(titles, MAX_ROWS_HELD)]:
        frame = pl.DataFrame({"text": pl.Series(texts).unique()})
        forms = normal_forms(frame["text"], settings.options.rules)
        frame = frame.with_columns(fp=fingerprints(forms), clicks=pl.lit(0, pl.Int64))
        frame = frame.filter(forms != "").select(*TEXTS).sort("fp", "text")
        yield from settings.send("corpus", frame)
    yield TaggedOutput("counts", counts)


def sum_query_bucket(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Yields:
        main   (bucket of queries, its queries or pairs);
        titles (bucket of titles, sums), of all titles that a query of the bucket names;
        words  (bucket of words, words);
        sizes  (bucket, number of queries);
        counts dict[str, int].
    """
    bucket, parts = group[0], parts_of(group[1])
    found = sum_queries(parts["pairs"], parts["texts"], settings.options)
    yield from settings.send("queries", found.queries, to=bucket)
    yield from settings.send("pairs", found.pairs, to=bucket)
    yield from settings.send("sums", found.titles, "titles", source=bucket)
    yield from settings.send("words", found.words, "words")
    yield TaggedOutput("sizes", (bucket, len(found.queries)))
    yield TaggedOutput("counts", found.counts | count_dropped(found.dropped))


def sum_title_bucket(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums what is known of each title.

    Yields:
        main   (bucket of titles, its titles);
        places (bucket of queries, the titles that it names);
        words  (bucket of words, words);
        pool   (0, titles that may be drawn);
        sizes  (bucket, number of titles);
        counts dict[str, int].
    """
    bucket, parts = group[0], parts_of(group[1])
    found = sum_titles(parts["sums"], parts["texts"], parts["corpus"], bucket, settings.options)
    yield from settings.send("titles", found.titles, to=bucket)
    for source, places in places_for(parts["sums"], found.titles):
        yield from settings.send("places", places, "places", to=source)
    yield from settings.send("words", found.words, "words")
    yield from settings.send("pool", found.pool, "pool", to=0)
    yield TaggedOutput("sizes", (bucket, len(found.titles)))
    yield TaggedOutput("counts", found.counts)


def sum_word_bucket(group: Group, settings: Settings) -> Iterator[Any]:
    """Sums the occurrences of words and of their letter trigrams.

    Yields:
        main   (bucket of words, its words);
        prints (bucket, their fingerprints as bytes);
        ngrams dict[str, int].
    """
    bucket, blocks = group
    words, ngrams = sum_words(parts_of(blocks)["words"], settings.options.rules.max_letters)
    yield from settings.send("words", words, to=bucket)
    yield TaggedOutput("prints", (bucket, words["fp"].to_numpy().tobytes()))
    yield TaggedOutput("ngrams", ngrams)


def write_rejects(group: Group, settings: Settings) -> Iterator[tuple[int, str]]:
    """Writes the rejects of a piece to a file of their own, in the order of lines.

    Yields:
        (piece number, path).
    """
    number, blocks = group
    rows = pl.concat(part.frame for part in parts_of(blocks)["rejects"]).sort("line")
    lines = (
        f"{line}\t{reason}\t{clicks}\t{text}\n".encode()
        for line, reason, text, clicks in rows.iter_rows()
    )
    yield number, write_part(settings.directory, "rejects", lines)
