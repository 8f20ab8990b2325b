"""The steps from pieces of logs to files, as Beam transforms.

Rows travel in frames, not one by one, and each frame belongs to a *bucket*, a share of the queries
(or titles, words, sessions) by the first bits of their fingerprints. Grouping by bucket costs a few
elements instead of millions, bounds what a worker holds to one bucket, and leaves every decision to
a plain function of all that is known of a query. Texts are numbered without a sort of all: a
number is a text's place in its bucket and the sum of the buckets before. No result depends on
bundles, workers, or the order of rows.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsIter, AsSingleton, PCollection, TaggedOutput
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray

from dssm_tf.data.format import KINDS
from dssm_tf.tables.table import Layout, Reject
from dssm_tf.text.growth import grow
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.cleaning import NO_CLICK, TEXTS, BlockList, clean_sessions, sum_rows, weighted
from pipelines.frames import (
    NAMESPACE,
    Block,
    Counts,
    Part,
    as_ipc,
    count_dropped,
    cut,
    keep,
    parts_of,
    step,
    tagged,
    until_error,
)
from pipelines.negatives import NONE, Clicked, NegativePool, add_drawn, add_shown, smallest
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.output import write_part
from pipelines.progress import Progress
from pipelines.records import pair_records, table, word_records
from pipelines.sources import Piece, PieceReader, corpus_titles
from pipelines.sums import (
    DRAW,
    PLACE_BITS,
    POOL_COLUMNS,
    places_for,
    random,
    sum_queries,
    sum_titles,
    sum_words,
)
from pipelines.texts import all_words, fingerprints, lists_of, mix, normal_forms, words_read

MAX_ROWS_HELD = 500_000
SAMPLES = 12
Frames = Iterator[tuple[int, str, int, pl.DataFrame]]
Sample = tuple[int, str, float, list[int]]
"""Of a training record: a random number, query, clicks, numbers of titles."""


class Written(NamedTuple):
    """A file that a worker wrote."""

    kind: str
    bucket: int
    path: str
    rows: int
    size: int
    digest: str


class Settings(NamedTuple):
    """What all steps are told.

    Args:
        options: the settings.
        bits: there are 2 ** bits buckets, and files of a kind.
        directory: where workers write.
        store: see `frames.keep`.
        progress: where workers on this machine report.
    """

    options: PreprocessOptions
    bits: int
    directory: str
    store: str | None = None
    progress: Progress = Progress()

    @property
    def buckets(self) -> int:
        """How many there are."""
        return 1 << self.bits

    def cut(self, kind: str, source: int, frame: pl.DataFrame, by: str = "fp") -> Frames:
        """What `frames.keep` takes: a frame as one a bucket."""
        return ((to, kind, source, part) for to, part in cut(frame, by, self.bits))

    def written(self, kind: str, bucket: int, rows: int, data: bytes) -> Written:
        """Writes a file."""
        path = write_part(self.directory, kind, [data])
        return Written(kind, bucket, path, rows, len(data), sha256(data).hexdigest())


@beam.ptransform_fn
def ReadPieces(
    pieces: PCollection, settings: Settings, block_list: BlockList, weights: Sequence[int] = ()
) -> Any:
    """Reads pieces of logs, checks each row and sums the good ones.

    Input:  PCollection[Piece].
    Output: a dictionary of PCollections:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits);
        rejects  (piece number, rejects), line numbers counted within the piece;
        counts   dict[str, int].
    """
    return pieces | "Read and sum rows" >> step(
        _read_piece, settings, block_list, tuple(weights),
        titles=Block, sessions=Block, rejects=Block, counts=Counts,
    )  # fmt: skip


def _read_piece(
    piece: Piece, settings: Settings, block_list: BlockList, weights: Sequence[int]
) -> Iterator[Any]:
    options, store = settings.options, settings.store
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
        found["clicks read"] += sum(one.clicks for one in rejects) + int(rows["clicks"].sum())
        found["clicks placed"] += int(rows.filter(pl.col("position") > 0)["clicks"].sum())
        found.update(f"rejected {one.reason}" for one in rejects)
        if rejects:
            frame = pl.DataFrame(rejects, schema=Reject._fields, orient="row")
            yield from tagged("rejects", keep([(piece.number, "rejects", 0, frame)], store))
        good = weighted(rows.filter(used), weights)
        found[f"dropped {NO_CLICK}"] += len(rows) - len(good)
        held.append(good.select("query", "title", "session", "clicks", "weighted"))
        if sum(map(len, held)) >= MAX_ROWS_HELD:
            yield from _summed(pl.concat(held), piece, settings, block_list)
            held = []
    if held:
        yield from _summed(pl.concat(held), piece, settings, block_list)
    Metrics.counter(NAMESPACE, "rows").inc(found["rows"])
    found[f"lines {piece.number}"] = reader.lines
    yield TaggedOutput("counts", counts | {name: n for name, n in found.items() if n})


def _summed(
    rows: pl.DataFrame, piece: Piece, settings: Settings, block_list: BlockList
) -> Iterator[Any]:
    found, visits = sum_rows(rows, settings.options.rules, block_list)
    yield from _cleaned(found, piece.number, settings)
    parts = settings.cut("visits", piece.number, visits, "s")
    yield from tagged("sessions", keep(parts, settings.store))


def _cleaned(found: Any, source: int, settings: Settings) -> Iterator[Any]:
    yield from keep(settings.cut("pairs", source, found.pairs, "q"), settings.store)
    yield from keep(settings.cut("texts", source, found.queries), settings.store)
    titles = keep(settings.cut("texts", source, found.titles), settings.store)
    yield from tagged("titles", titles)
    yield TaggedOutput("counts", count_dropped(found.dropped))


@beam.ptransform_fn
def CleanSessions(sessions: PCollection, settings: Settings) -> Any:
    """Drops sessions of bots and spam, and clicks repeated within a session.

    Input:  PCollection[(bucket of sessions, visits)].
    Output: main, titles and counts as those of ReadPieces.
    """
    clean = step(_clean_bucket, settings, titles=Block, counts=Counts)
    return sessions | "Group sessions" >> beam.GroupByKey() | "Clean sessions" >> clean


def _clean_bucket(element: tuple[int, Iterable[bytes]], settings: Settings) -> Iterator[Any]:
    bucket, blocks = element
    options = settings.options
    visits = pl.concat(part.frame for part in parts_of(blocks)["visits"])
    limits = options.max_queries_per_session, options.max_clicks_per_session
    yield from _cleaned(clean_sessions(visits, *limits), bucket, settings)
    yield TaggedOutput("counts", {"sessions": visits["s"].n_unique()})


@beam.ptransform_fn
def ReadCorpus(paths: PCollection, settings: Settings) -> Any:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Input:  PCollection[str], paths of tables with a column `title`.
    Output: main (bucket of titles, corpus); counts dict[str, int].
    """
    read = step(_read_corpus, settings, counts=Counts)
    return paths | "Spread files" >> beam.Reshuffle() | "Read titles" >> read


def _read_corpus(path: str, settings: Settings) -> Iterator[Any]:
    counts: Counts = {}
    layout: Layout = settings.options.layout
    titles = until_error(corpus_titles(path, layout), counts)
    while texts := [text for text, _ in zip(titles, range(MAX_ROWS_HELD), strict=False)]:
        frame = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String).unique()})
        forms = normal_forms(frame["text"], settings.options.rules)
        frame = frame.with_columns(fp=fingerprints(forms), clicks=pl.lit(0, pl.Int64))
        frame = frame.filter(forms != "").select(*TEXTS).sort("fp", "text")
        yield from keep(settings.cut("corpus", 0, frame), settings.store)
    yield TaggedOutput("counts", counts)


@beam.ptransform_fn
def SumQueries(pairs: PCollection, settings: Settings) -> Any:
    """Sums clicks per (query, title), drops pairs below `min_clicks` and splits by query.

    Input:  PCollection[(bucket of queries, pairs or texts)].
    Output: a dictionary of PCollections:
        main   (bucket of queries, its queries or pairs);
        titles (bucket of titles, sums), of all titles that a query of the bucket names;
        words  (bucket of words, words);
        sizes  (bucket, number of queries);
        counts dict[str, int].
    """
    total = step(
        _sum_queries, settings, titles=Block, words=Block, sizes=tuple[int, int], counts=Counts
    )
    return pairs | "Group queries" >> beam.GroupByKey() | "Sum clicks" >> total


def _sum_queries(element: tuple[int, Iterable[bytes]], settings: Settings) -> Iterator[Any]:
    bucket, parts = element[0], parts_of(element[1])
    found = sum_queries(parts.get("pairs", ()), parts.get("texts", ()), settings.options)
    own = [(bucket, "queries", 0, found.queries), (bucket, "pairs", 0, found.pairs)]
    yield from keep(own, settings.store)
    yield from tagged("titles", keep(settings.cut("sums", bucket, found.titles), settings.store))
    yield from tagged("words", keep(settings.cut("words", 0, found.words), settings.store))
    yield TaggedOutput("sizes", (bucket, len(found.queries)))
    yield TaggedOutput("counts", found.counts | count_dropped(found.dropped))


@beam.ptransform_fn
def SumTitles(titles: PCollection, settings: Settings) -> Any:
    """Sums what is known of each title.

    Input:  PCollection[(bucket of titles, sums, texts or corpus)].
    Output: a dictionary of PCollections:
        main   (bucket of titles, its titles);
        places (bucket of queries, the titles that it names);
        words  (bucket of words, words);
        pool   titles that may be drawn;
        sizes  (bucket, number of titles);
        counts dict[str, int].
    """
    total = step(
        _sum_titles, settings,
        places=Block, words=Block, pool=bytes, sizes=tuple[int, int], counts=Counts,
    )  # fmt: skip
    return titles | "Group titles" >> beam.GroupByKey() | "Sum titles" >> total


def _sum_titles(element: tuple[int, Iterable[bytes]], settings: Settings) -> Iterator[Any]:
    bucket, parts = element[0], parts_of(element[1])
    sums = parts.get("sums", ())
    corpus, texts = parts.get("corpus", ()), parts.get("texts", ())
    found = sum_titles(sums, texts, corpus, bucket, settings.options)
    yield from keep([(bucket, "titles", 0, found.titles)], settings.store)
    places = ((to, "places", bucket, one) for to, one in places_for(sums, found.titles))
    yield from tagged("places", keep(places, settings.store))
    yield from tagged("words", keep(settings.cut("words", 0, found.words), settings.store))
    chosen = keep([(0, "pool", bucket, found.pool)], settings.store)
    yield from tagged("pool", (block for _, block in chosen))
    yield TaggedOutput("sizes", (bucket, len(found.titles)))
    yield TaggedOutput("counts", found.counts)


@beam.ptransform_fn
def SumWords(words: PCollection, settings: Settings) -> Any:
    """Sums the occurrences of words and of their letter trigrams.

    Input:  PCollection[(bucket of words, words)].
    Output: a dictionary of PCollections: main (bucket, its words); prints (bucket, their
        fingerprints as bytes); ngrams dict[str, int].
    """
    total = step(_sum_words, settings, prints=Block, ngrams=Counts)
    return words | "Group words" >> beam.GroupByKey() | "Sum words" >> total


def _sum_words(element: tuple[int, Iterable[bytes]], settings: Settings) -> Iterator[Any]:
    bucket, blocks = element
    letters = settings.options.rules.max_letters
    words, ngrams = sum_words(parts_of(blocks).get("words", ()), letters)
    yield from keep([(bucket, "words", 0, words)], settings.store)
    yield TaggedOutput("prints", (bucket, words["fp"].to_numpy().tobytes()))
    yield TaggedOutput("ngrams", ngrams)


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


@beam.ptransform_fn
def WriteWords(words: PCollection, settings: Settings, vocabulary: PCollection) -> Any:
    """Hashes words to letter trigrams and writes a file a bucket.

    Input:  PCollection[(bucket of words, its words)].
    Output: main Written; counts dict[str, int].
    """
    write = step(_write_words, settings, AsSingleton(vocabulary), main=Written, counts=Counts)
    return words | "Write words" >> write


def _write_words(element: Block, settings: Settings, vocabulary: Vocabulary) -> Iterator[Any]:
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


@beam.ptransform_fn
def WriteTitles(titles: PCollection, settings: Settings, prints: PCollection) -> Any:
    """Writes the table of titles, a file a bucket.

    Input:  PCollection[(bucket of titles, its titles)].
    Output: PCollection[Written].
    """
    write = beam.Map(_write_titles, settings, AsIter(prints), Shared())
    return titles | "Write titles" >> write.with_output_types(Written)


def _write_titles(
    element: Block, settings: Settings, prints: Iterable[Block], shared: Shared
) -> Written:
    bucket, (part,) = element[0], parts_of([element[1]])["titles"]
    frame = part.frame
    columns = {
        "text": frame["text"].to_arrow(),
        "words": _word_numbers(frame["text"], settings, _prints(prints, shared)),
        "clicks": frame["clicks"].to_arrow(),
        "queries": frame["queries"].cast(pl.Int32).to_arrow(),
    }
    return settings.written("titles", bucket, len(frame), table(columns))


@beam.ptransform_fn
def WriteQueriesAndPairs(
    queries_and_places: tuple[PCollection, PCollection],
    settings: Settings,
    prints: PCollection,
    pool: PCollection,
    queries: PCollection,
    titles: PCollection,
) -> Any:
    """Draws negatives, and writes the table of queries and the records, a file a bucket.

    Input:  main of SumQueries and places of SumTitles; their sizes; prints of SumWords.
    Output: main Written; counts dict[str, int]; samples: (key, query, clicks, titles' numbers).
    """
    write = step(
        _write_queries, settings, AsIter(prints), AsSingleton(pool), AsIter(queries),
        AsIter(titles), Shared(), Shared(), main=Written, counts=Counts, samples=Sample,
    )  # fmt: skip
    return (
        queries_and_places
        | "Queries and places" >> beam.Flatten()
        | "Bring titles to queries" >> beam.GroupByKey()
        | "Write queries and pairs" >> write
    )


def _write_queries(
    element: tuple[int, Iterable[bytes]],
    settings: Settings,
    prints: Iterable[Block],
    pool: bytes,
    query_sizes: Iterable[tuple[int, int]],
    title_sizes: Iterable[tuple[int, int]],
    shared_prints: Shared,
    shared_pools: Shared,
) -> Iterator[Any]:
    options, (bucket, blocks) = settings.options, element
    parts = parts_of(blocks)
    query_first, title_first = (first_numbers(s, settings) for s in (query_sizes, title_sizes))
    queries, pairs = parts["queries"][0].frame, parts["pairs"][0].frame
    places = [_numbered(part.frame, title_first) for part in parts.get("places", ())]
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
        if split not in splits_of(options):
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
                numbers = [number[one], *(other for other in rows[place] if other != NONE)]
                text = queries["text"][int(row[one])]
                sample = (
                    int(keys[one] >> np.uint64(1)),
                    text,
                    float(clicks[place]),
                    [*map(int, numbers)],
                )
                yield TaggedOutput("samples", sample)
    columns = {
        "text": queries["text"].to_arrow(),
        "words": _word_numbers(queries["text"], settings, _prints(prints, shared_prints)),
        "clicked": _lists(row[was_clicked], number[was_clicked], len(queries)),
    }
    yield settings.written("queries", bucket, len(queries), table(columns))
    yield TaggedOutput("counts", counts)


def splits_of(options: PreprocessOptions) -> tuple[str, ...]:
    """The parts that have files."""
    return (TRAIN, VALIDATION) if options.validation_fraction else (TRAIN,)


def kinds_of(options: PreprocessOptions) -> tuple[str, ...]:
    """The kinds of files that there are."""
    return tuple(kind for kind in KINDS if kind != VALIDATION or kind in splits_of(options))


def first_numbers(sizes: Iterable[tuple[int, int]], settings: Settings) -> NDArray[np.int64]:
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

    def __init__(self, pool: bytes, first: NDArray[np.int64], settings: Settings) -> None:
        options = settings.options
        found = _numbered(parts_of([pool])["pool"][0].frame, first)
        size, alpha = options.negative_pool, options.negative_alpha
        self.of = [NegativePool(found, size, alpha, training=one) for one in (False, True)]


def fill_pool(blocks: Iterable[bytes], size: int) -> bytes:
    """The titles of smallest rank of several parts, as one."""
    parts = parts_of(blocks).get("pool", ())
    frames = [pl.DataFrame(schema=POOL_COLUMNS), *(part.frame for part in parts)]
    return pickle.dumps(Part("pool", 0, as_ipc(smallest(pl.concat(frames), size))))


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


@beam.ptransform_fn
def WriteRejects(rejects: PCollection, settings: Settings) -> Any:
    """Writes the rejects of each piece to a file of their own, in the order of lines.

    Input:  PCollection[(piece number, rejects)].
    Output: PCollection[(piece number, path)].
    """
    write = beam.Map(_write_rejects, settings).with_output_types(tuple[int, str])
    return rejects | "Group rejects" >> beam.GroupByKey() | "Write rejects" >> write


def _write_rejects(element: tuple[int, Iterable[bytes]], settings: Settings) -> tuple[int, str]:
    number, blocks = element
    rows = pl.concat(part.frame for part in parts_of(blocks)["rejects"]).sort("line")
    lines = (
        f"{line}\t{reason}\t{clicks}\t{text}\n".encode()
        for line, reason, text, clicks in rows.iter_rows()
    )
    return number, write_part(settings.directory, "rejects", lines)
