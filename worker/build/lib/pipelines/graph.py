"""The whole pipeline, from pieces of logs to a manifest that names every file written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared

from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.estimation import HARVESTING
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import cleaning, record_transforms, sums, transforms
from pipelines.frames import Block, Counts, Settings, Written, by_bucket, step, sum_counts
from pipelines.output import PARTS, create, open_bytes
from pipelines.sources import Piece

NAMESPACE = "preprocess"
_MANIFEST = "manifest"
BUCKET_BYTES = 8 << 20
_PACKED = 4
"""How many times as large a log is as its `.gz` or Parquet file."""


class Manifest(NamedTuple):
    """What the pipeline hands to the launcher.

    Args:
        counts: by name.
        vocabulary: the letter trigrams.
        files: those written, by kind and bucket.
        rejects: files of pickled rejects by piece, each with the first one's line in the piece.
        curve: that clicks are weighted by.
    """

    counts: Counts
    vocabulary: Vocabulary
    files: list[Written]
    rejects: list[Written]
    curve: ExaminationCurve | None

    @classmethod
    def load(cls, directory: str) -> Manifest:
        """Reads what the pipeline wrote."""
        with open_bytes(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
            found: Manifest = pickle.loads(file.read())
        return found


def bits_of(files: Iterable[FileMetadata], shards: int) -> int:
    """2 ** bits is how many files of a kind there are, and in how many buckets the log is grouped.

    Args:
        files: that are read.
        shards: how many are asked for, a power of two; 0: as many as keep a bucket small.
    """
    size = sum(
        file.size_in_bytes * (_PACKED if file.path.endswith((".gz", ".parquet")) else 1)
        for file in files
    )
    return ((shards or -(-size // BUCKET_BYTES)) - 1).bit_length()


def build(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    settings: Settings,
    corpus: Sequence[Piece] = (),
    known: Vocabulary | None = None,
) -> None:
    """Adds every step to a pipeline.

    Args:
        pipeline: to add to.
        pieces: of the log.
        settings: what all steps are told.
        corpus: pieces of tables of titles that may be ranked.
        known: an earlier vocabulary, whose trigrams keep their ids.
    """
    options, size = settings.options, tuple[int, int]
    # No bucket is left out because nothing is in it: each becomes a file.
    every = pipeline | "Every bucket" >> beam.Create(
        [(bucket, b"") for bucket in range(1 << settings.bits)]
    ).with_output_types(Block)
    log = pipeline | "Pieces" >> beam.Create(list(pieces)) | "Spread" >> beam.Reshuffle()
    curve: Any = transforms.given_curve(options)
    if options.position_weights == HARVESTING:
        curve = pvalue.AsSingleton(log | "EstimateCurve" >> transforms.estimate_curve(options))
    read = log | "ReadPieces" >> step(
        transforms.read_piece, settings, curve, titles=Block, sessions=Block, rejects=Written
    )
    sessions = (read.sessions,) | "CleanSessions" >> by_bucket(
        cleaning.clean_sessions, settings, titles=Block
    )
    offered = (
        pipeline
        | "Pieces of the corpus" >> beam.Create(list(corpus))
        | "Spread the corpus" >> beam.Reshuffle()
        | "ReadCorpus" >> beam.FlatMap(transforms.read_corpus, settings).with_output_types(Block)
    )
    queries = (read.main, sessions.main, every) | "SumQueries" >> by_bucket(
        sums.sum_queries, settings, titles=Block, words=Block, sizes=size
    )
    titles = (
        queries.titles,
        read.titles,
        sessions.titles,
        offered,
        every,
    ) | "SumTitles" >> by_bucket(
        sums.sum_titles, settings, places=Block, words=Block, pool=Block, sizes=size
    )
    words = (queries.words, titles.words, every) | "SumWords" >> by_bucket(
        sums.sum_words, settings, prints=Block, ngrams=Counts
    )
    vocabulary = pvalue.AsSingleton(
        words.ngrams
        | "Count trigrams" >> beam.CombineGlobally(sum_counts)
        | "ChooseTrigrams" >> beam.Map(record_transforms.choose_trigrams, options, known)
    )
    pool = pvalue.AsSingleton(
        titles.pool
        | "FillPool" >> beam.CombineGlobally(record_transforms.fill_pool, options.negative_pool)
    )
    prints = pvalue.AsIter(words.prints)
    hashed = words.main | "WriteWords" >> beam.Map(
        record_transforms.write_words, settings, vocabulary
    )
    tables = titles.main | "WriteTitles" >> beam.Map(
        record_transforms.write_titles, settings, prints, Shared()
    )
    records = (
        (queries.main, titles.places)
        | "WriteQueriesAndPairs"
        >> by_bucket(
            record_transforms.write_queries, settings, prints, pool,
            pvalue.AsIter(queries.sizes), pvalue.AsIter(titles.sizes), Shared(),
            (Shared(), Shared()), main=Written,
        )
    )  # fmt: skip
    counts = (
        tuple(one.counts for one in (read, sessions, queries, titles, words, records))
        | "All counts" >> beam.Flatten()
        | "Count for the runner, too" >> beam.Map(_count)
        | "Sum counts" >> beam.CombineGlobally(sum_counts)
    )
    files = (hashed, tables, records.main) | "All files" >> beam.Flatten()
    _ = (
        pipeline
        | "Once" >> beam.Create([settings.directory])
        | "Write manifest"
        >> beam.Map(
            _write_manifest, pvalue.AsSingleton(counts), vocabulary, pvalue.AsIter(files),
            pvalue.AsIter(read.rejects), curve,
        )
    )  # fmt: skip


def _count(counts: Counts) -> Counts:
    for name, number in counts.items():
        if name.startswith(("rows", "dropped ")):
            Metrics.counter(NAMESPACE, name).inc(number)
    return counts


def _write_manifest(
    directory: str,
    counts: Counts,
    vocabulary: Vocabulary,
    files: Iterable[Written],
    rejects: Iterable[Written],
    curve: ExaminationCurve | None,
) -> None:
    counts = dict(sorted(counts.items()))
    in_order = sorted(rejects, key=lambda one: (one.bucket, one.rows))
    manifest = Manifest(counts, vocabulary, sorted(files), in_order, curve)
    with create(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
        file.write(pickle.dumps(manifest))
