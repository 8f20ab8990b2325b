"""The whole pipeline, from pieces of logs to a manifest that names every file written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystem import FileMetadata
from apache_beam.utils.shared import Shared

from dssm_tf.positions.curve import ExaminationCurve, read_curve
from dssm_tf.positions.estimation import HARVESTING
from dssm_tf.text.growth import grow
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import record_transforms, sums, transforms
from pipelines.frames import Counts, Settings, Written, by_bucket, outputs, sum_counts
from pipelines.options import NONE
from pipelines.output import save
from pipelines.sources import Piece, may_have_quotes, whole_if_quoted

MANIFEST = "manifest"
BUCKET_BYTES = 8 << 20
"""Of the log, for as many buckets as keep each small."""


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


def unpacked_size(files: Iterable[FileMetadata]) -> int:
    """The bytes of files, those of `.gz` and Parquet unpacked, about four times as many."""
    return sum(
        file.size_in_bytes * (4 if file.path.lower().endswith((".gz", ".parquet")) else 1)
        for file in files
    )


def build(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    settings: Settings,
    corpus: Sequence[Piece],
    known: Vocabulary,
) -> None:
    """Adds every step to a pipeline.

    Args:
        pipeline: to add to.
        pieces: of the log.
        settings: what all steps are told.
        corpus: pieces of tables of titles that may be ranked.
        known: an earlier vocabulary, whose trigrams keep their ids; perhaps empty.
    """
    options = settings.options
    # No bucket is left out because nothing is in it: each becomes a file.
    every = pipeline | "Every bucket" >> beam.Create(
        [(bucket, None) for bucket in range(1 << settings.bits)]
    )
    log = _spread(pipeline | "Pieces" >> beam.Create([*pieces]), "the log", pieces)
    curve: Any = None
    if options.position_weights not in (NONE, HARVESTING):
        curve = read_curve(options.position_weights)
    elif options.position_weights == HARVESTING:
        curve = pvalue.AsSingleton(log | "EstimateCurve" >> transforms.estimate_curve(options))
    read = log | "ReadPieces" >> outputs(
        transforms.read_piece, settings, curve, tags=("titles", "sessions", "rejects")
    )
    sessions = (read.sessions,) | "CleanSessions" >> by_bucket(
        transforms.clean_sessions, settings, tags=["titles"]
    )
    offered = _spread(
        pipeline | "Pieces of the corpus" >> beam.Create([*corpus]), "the corpus", corpus
    ) | "ReadCorpus" >> outputs(transforms.read_corpus, settings, tags=())
    queries = (read.main, sessions.main, every) | "SumQueries" >> by_bucket(
        sums.sum_queries, settings, tags=("titles", "words", "sizes")
    )
    titles = (
        queries.titles,
        read.titles,
        sessions.titles,
        offered.main,
        every,
    ) | "SumTitles" >> by_bucket(sums.sum_titles, settings, tags=("words", "all"))
    words = (queries.words, titles.words, every) | "SumWords" >> by_bucket(
        sums.sum_words, settings, tags=("prints", "ngrams")
    )
    vocabulary = pvalue.AsSingleton(
        words.ngrams
        | "Count trigrams" >> beam.CombineGlobally(sum_counts)
        | "ChooseTrigrams"
        >> beam.Map(partial(grow, known), options.vocabulary_size, options.min_ngram_count)
    )
    known_texts = pvalue.AsIter(words.prints), pvalue.AsIter(titles.all), Shared()
    hashed = words.main | "WriteWords" >> beam.Map(
        record_transforms.write_words, settings, vocabulary
    )
    tables = titles.main | "WriteTitles" >> beam.Map(
        record_transforms.write_titles, settings, *known_texts
    )
    records = queries.main | "WriteQueriesAndPairs" >> outputs(
        record_transforms.write_queries,
        settings,
        *known_texts,
        pvalue.AsIter(queries.sizes),
        tags=(),
    )
    counts = (
        tuple(one.counts for one in (read, offered, sessions, queries, titles, records))
        | "All counts" >> beam.Flatten()
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


def _spread(created: Any, name: str, pieces: Sequence[Piece]) -> Any:
    """Pieces among workers; files of CSV with quotes in one piece."""
    if may_have_quotes(pieces):
        return created | f"Join quoted files of {name}" >> whole_if_quoted()
    return created | f"Spread {name}" >> beam.Reshuffle()


def _write_manifest(
    directory: str,
    counts: Counts,
    vocabulary: Vocabulary,
    files: Iterable[Written],
    rejects: Iterable[Written],
    curve: ExaminationCurve | None,
) -> None:
    in_order = sorted(rejects, key=lambda one: (one.bucket, one.rows))
    manifest = Manifest(dict(sorted(counts.items())), vocabulary, sorted(files), in_order, curve)
    save(directory, MANIFEST, manifest)
