"""The graph of all Beam steps, from pieces of logs to a manifest of the written files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystem import FileMetadata
from apache_beam.utils.shared import Shared

from dssm_tf.positions.curve import ExaminationCurve, read_curve
from dssm_tf.positions.estimation import HARVESTING
from dssm_tf.text.growth import grow
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import aggregate, examination_curve, parse_log, write_records
from pipelines.log_statistics import LogStatistics, merge_statistics
from pipelines.manifest import OutputManifest
from pipelines.options import NONE
from pipelines.shards import (
    Counts,
    OutputFile,
    PipelineContext,
    by_bucket,
    multi_output,
    sum_counts,
)
from pipelines.sources import Piece, join_if_quoted, may_have_quotes

BUCKET_BYTES = 8 << 20
"""Bytes of input per bucket, unless `--shards` sets the number of buckets."""


def unpacked_size(files: Iterable[FileMetadata]) -> int:
    """Total bytes of files when unpacked: `.gz` and Parquet files count four times."""
    return sum(
        file.size_in_bytes * (4 if file.path.lower().endswith((".gz", ".parquet")) else 1)
        for file in files
    )


def build(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    context: PipelineContext,
    corpus: Sequence[Piece],
    earlier_vocabulary: Vocabulary,
) -> None:
    """Adds every step to a pipeline.

    Args:
        pipeline: the pipeline.
        pieces: pieces of the log; empty if there is only a corpus.
        context: settings of all steps.
        corpus: pieces of tables with the titles to rank.
        earlier_vocabulary: its n-grams keep their ids; may be empty.
    """
    options = context.options
    # Empty buckets become files too.
    every_bucket = pipeline | "Every bucket" >> beam.Create(
        [(bucket, None) for bucket in range(1 << context.bits)], reshuffle=False
    )
    log = _create_pieces(pipeline, "the log", pieces)
    curve: Any = None
    if options.position_weights not in (NONE, HARVESTING):
        curve = read_curve(options.position_weights)
    elif options.position_weights == HARVESTING:
        curve = pvalue.AsSingleton(
            log | "EstimateCurve" >> examination_curve.estimate_curve(options)
        )
    read = log | "ReadPieces" >> multi_output(
        parse_log.read_piece, context, curve, tags=("titles", "sessions", "rejects")
    )
    sessions = (read.sessions,) | "CleanSessions" >> by_bucket(
        parse_log.clean_sessions, context, tags=["titles"]
    )
    corpus_titles = _create_pieces(pipeline, "the corpus", corpus) | "ReadCorpus" >> multi_output(
        parse_log.read_corpus, context, tags=()
    )
    queries = (read.main, sessions.main, every_bucket) | "SumQueries" >> by_bucket(
        aggregate.sum_queries, context, tags=("titles", "words", "sizes")
    )
    titles = (
        queries.titles,
        read.titles,
        sessions.titles,
        corpus_titles.main,
        every_bucket,
    ) | "SumTitles" >> by_bucket(aggregate.sum_titles, context, tags=("words", "fingerprints"))
    words = (queries.words, titles.words, every_bucket) | "SumWords" >> by_bucket(
        aggregate.sum_words, context, tags=("fingerprints", "ngrams")
    )
    vocabulary = pvalue.AsSingleton(
        words.ngrams
        | "Count n-grams" >> beam.CombineGlobally(sum_counts).without_defaults()
        | "ChooseNgrams"
        >> beam.Map(
            partial(grow, earlier_vocabulary), options.vocabulary_size, options.min_ngram_count
        )
    )
    known_texts = pvalue.AsIter(words.fingerprints), pvalue.AsIter(titles.fingerprints), Shared()
    word_files = words.main | "WriteWords" >> beam.Map(
        write_records.write_words, context, vocabulary
    )
    title_files = titles.main | "WriteTitles" >> beam.Map(
        write_records.write_titles, context, *known_texts
    )
    records = queries.main | "WriteQueriesAndPairs" >> multi_output(
        write_records.write_queries,
        context,
        *known_texts,
        pvalue.AsIter(queries.sizes),
        tags=(),
    )
    counts = (
        tuple(step.counts for step in (read, corpus_titles, sessions, queries, titles, records))
        | "All counts" >> beam.Flatten()
        | "Sum counts" >> beam.CombineGlobally(sum_counts).without_defaults()
    )
    statistics = (
        tuple(step.statistics for step in (read, corpus_titles, sessions, queries, titles))
        | "All statistics" >> beam.Flatten()
        | "Merge statistics" >> beam.CombineGlobally(merge_statistics).without_defaults()
    )
    files = (word_files, title_files, records.main) | "All files" >> beam.Flatten()
    _ = (
        pipeline
        | "Once" >> beam.Create([context.directory])
        | "Write manifest"
        >> beam.Map(
            _write_manifest, pvalue.AsSingleton(counts), vocabulary, pvalue.AsIter(files),
            pvalue.AsIter(read.rejects), curve, pvalue.AsSingleton(statistics),
        )
    )  # fmt: skip


def _create_pieces(pipeline: beam.Pipeline, name: str, pieces: Sequence[Piece]) -> Any:
    """Distributes pieces among workers; a CSV file with quotes becomes one piece."""
    created = pipeline | f"Pieces of {name}" >> beam.Create([*pieces], reshuffle=False)
    if may_have_quotes(pieces):
        return created | f"Join quoted files of {name}" >> join_if_quoted()
    if len(pieces) < 2:  # nothing to distribute
        return created
    return created | f"Spread {name}" >> beam.Reshuffle()


def _write_manifest(
    directory: str,
    counts: Counts,
    vocabulary: Vocabulary,
    files: Iterable[OutputFile],
    rejects: Iterable[OutputFile],
    curve: ExaminationCurve | None,
    statistics: LogStatistics,
) -> None:
    in_order = sorted(rejects, key=lambda file: (file.bucket, file.rows))
    sorted_counts = dict(sorted(counts.items()))
    manifest = OutputManifest(sorted_counts, vocabulary, sorted(files), in_order, curve, statistics)
    manifest.save(directory)
