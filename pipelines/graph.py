"""The whole pipeline, from pieces of logs to a manifest that names every file written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.shared import Shared

from dssm_tf.text.vocabulary import Vocabulary
from pipelines import record_transforms, transforms
from pipelines.cleaning import BlockList
from pipelines.frames import Block, Counts, by_bucket, step, sum_counts
from pipelines.output import PARTS, create, open_bytes
from pipelines.record_transforms import SAMPLES, Sample
from pipelines.settings import Settings, Written
from pipelines.sources import Piece

_MANIFEST = "manifest.json"
BUCKET_BYTES = 8 << 20
_PACKED = 4
"""How many times as large a log is as its `.gz` or Parquet file."""


@dataclass
class Manifest:
    """What the pipeline hands to the launcher.

    Args:
        counts: by name.
        ngrams: the vocabulary, in the order of ids.
        files: those written, by kind and bucket.
        rejects: [piece, path].
        samples: of training records: key, query, clicks, numbers of titles.
    """

    counts: dict[str, int]
    ngrams: list[str]
    files: list[Written]
    rejects: list[tuple[int, str]]
    samples: list[Sample]

    @classmethod
    def load(cls, directory: str) -> Manifest:
        """Reads what the pipeline wrote."""
        with open_bytes(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
            found = cls(**json.loads(file.read()))
        found.files = [Written(*one) for one in found.files]
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
    block_list: BlockList,
    corpus: Sequence[FileMetadata] = (),
    known: Vocabulary | None = None,
    weights: Sequence[int] = (),
) -> None:
    """Adds every step to a pipeline.

    Args:
        pipeline: to add to.
        pieces: of the input.
        settings: what all steps are told.
        block_list: words and queries to drop.
        corpus: files of titles that may be ranked.
        known: an earlier vocabulary, whose trigrams keep their ids.
        weights: of clicks by position, see `cleaning.weighted`.
    """
    options, size = settings.options, tuple[int, int]
    # No bucket is left out because nothing is in it: each becomes a file.
    every = pipeline | "Every bucket" >> beam.Create(
        [(bucket, b"") for bucket in range(settings.buckets)]
    ).with_output_types(Block)
    read = (
        pipeline
        | "Pieces" >> beam.Create(list(pieces))
        | "Spread pieces" >> beam.Reshuffle()
        | "ReadPieces"
        >> step(
            transforms.read_piece, settings, block_list, tuple(weights),
            titles=Block, sessions=Block, rejects=Block, counts=Counts,
        )
    )  # fmt: skip
    sessions = read.sessions | "CleanSessions" >> by_bucket(
        transforms.clean_bucket, settings, titles=Block, counts=Counts
    )
    offered = (
        pipeline
        | "Corpus files" >> beam.Create([file.path for file in corpus])
        | "Spread files" >> beam.Reshuffle()
        | "ReadCorpus" >> step(transforms.read_corpus, settings, counts=Counts)
    )
    queries = (
        (read.main, sessions.main, every)
        | "Pairs" >> beam.Flatten()
        | "SumQueries"
        >> by_bucket(
            transforms.sum_query_bucket, settings,
            titles=Block, words=Block, sizes=size, counts=Counts,
        )
    )  # fmt: skip
    titles = (
        (queries.titles, read.titles, sessions.titles, offered.main, every)
        | "Clicked and offered titles" >> beam.Flatten()
        | "SumTitles"
        >> by_bucket(
            transforms.sum_title_bucket, settings,
            places=Block, words=Block, pool=Block, sizes=size, counts=Counts,
        )
    )  # fmt: skip
    words = (
        (queries.words, titles.words, every)
        | "All words" >> beam.Flatten()
        | "SumWords" >> by_bucket(transforms.sum_word_bucket, settings, prints=Block, ngrams=Counts)
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
    hashed = words.main | "WriteWords" >> step(
        record_transforms.write_words, settings, vocabulary, main=Written, counts=Counts
    )
    tables = titles.main | "WriteTitles" >> beam.Map(
        record_transforms.write_titles, settings, prints, Shared()
    ).with_output_types(Written)
    records = (
        (queries.main, titles.places)
        | "Queries and places" >> beam.Flatten()
        | "WriteQueriesAndPairs"
        >> by_bucket(
            record_transforms.write_queries, settings, prints, pool,
            pvalue.AsIter(queries.sizes), pvalue.AsIter(titles.sizes), Shared(), Shared(),
            main=Written, counts=Counts, samples=Sample,
        )
    )  # fmt: skip
    rejects = read.rejects | "WriteRejects" >> by_bucket(
        transforms.write_rejects, settings, main=tuple[int, str]
    )
    counts = (
        tuple(one.counts for one in (read, offered, sessions, queries, titles, hashed, records))
        | "All counts" >> beam.Flatten()
        | "Sum counts" >> beam.CombineGlobally(sum_counts)
    )
    files = (hashed.main, tables, records.main) | "All files" >> beam.Flatten()
    _ = (
        pipeline
        | "Once" >> beam.Create([settings.directory])
        | "Write manifest"
        >> beam.Map(
            _write_manifest,
            counts=pvalue.AsSingleton(counts),
            vocabulary=vocabulary,
            files=pvalue.AsIter(files),
            rejects=pvalue.AsIter(rejects.main),
            samples=pvalue.AsIter(records.samples),
        )
    )


def _write_manifest(
    directory: str,
    counts: dict[str, int],
    vocabulary: Vocabulary,
    files: Iterable[Any],
    rejects: Iterable[tuple[int, str]],
    samples: Iterable[Sample],
) -> None:
    manifest = Manifest(
        counts=dict(sorted(counts.items())),
        ngrams=list(vocabulary.ngrams),
        files=sorted(files),
        rejects=sorted(rejects),
        samples=sorted(samples)[:SAMPLES],
    )
    with create(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
        file.write(json.dumps(manifest.__dict__).encode())
