"""The whole pipeline, from pieces of logs to a manifest that names every file written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.text.vocabulary import Vocabulary
from pipelines import blocks, transforms
from pipelines.cleaning import BlockList
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.progress import Progress
from pipelines.record_transforms import DrawNegatives, WriteShards, make_vocabulary
from pipelines.records import SAMPLES, Coverage, PairRecord, record_order
from pipelines.sources import Piece
from pipelines.writing import PARTS, Shards, create, open_bytes

_MANIFEST = "manifest.json"
BUCKET_BYTES = 16 << 20
MIN_BUCKETS = 8
SHARD_BYTES = 8 << 20
_MIN_SHARDS = 4


@dataclass
class Manifest:
    """What the pipeline hands to the launcher.

    Args:
        counts: by name.
        ngrams: the vocabulary, in the order of ids.
        titles: paths of title tables, each most clicked first.
        clicked_titles: paths of parts of `clicked_titles.tsv.gz`, each sorted.
        shards: [place in `Shards`, path].
        rejects: [piece, path].
        samples: of training records: query, clicks and titles.
        covered_words: [distinct words, those of which every trigram is known], validation part.
    """

    counts: dict[str, int]
    ngrams: list[str]
    titles: list[str]
    clicked_titles: list[str]
    shards: list[tuple[int, str]]
    rejects: list[tuple[int, str]]
    samples: list[dict[str, Any]] = field(default_factory=list)
    covered_words: tuple[int, int] = (0, 0)

    @classmethod
    def load(cls, directory: str) -> Manifest:
        """Reads what the pipeline wrote."""
        with open_bytes(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
            return cls(**json.loads(file.read()))


def bucket_count(input_bytes: int, options: PreprocessOptions) -> int:
    """How many pieces the log is grouped in: one is held in memory at a time."""
    return options.buckets or max(MIN_BUCKETS, input_bytes // BUCKET_BYTES)


def shards_of(input_bytes: int, options: PreprocessOptions) -> Shards:
    """The files that records are written in."""
    train = options.shards or max(_MIN_SHARDS, input_bytes // SHARD_BYTES)
    counts = {TRAIN: train}
    if share := options.validation_fraction:
        counts[VALIDATION] = max(1, round(train * share / (1 - share)))
    return Shards(counts)


def build(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    input_bytes: int,
    options: PreprocessOptions,
    block_list: BlockList,
    directory: str,
    progress: Progress,
    corpus: Sequence[FileMetadata] = (),
    store: str | None = None,
    known: Vocabulary | None = None,
    weights: Sequence[int] = (),
) -> None:
    """Adds every step to a pipeline.

    Args:
        pipeline: to add to.
        pieces: of the input.
        input_bytes: their size, compressed or not.
        options: the settings.
        block_list: words and queries to drop.
        directory: where workers write.
        progress: where workers on this machine report.
        corpus: files of titles that may be ranked.
        store: see `blocks.keep`.
        known: an earlier vocabulary, whose trigrams keep their ids.
        weights: of clicks by position, see `RowCounter`.
    """
    buckets = bucket_count(input_bytes + sum(file.size_in_bytes for file in corpus), options)
    shards = shards_of(input_bytes, options)
    read = (
        pipeline
        | "Pieces" >> beam.Create(list(pieces))
        | "Spread pieces" >> beam.Reshuffle()
        | "Read clicks"
        >> transforms.ReadClicks(options, block_list, buckets, progress, store, weights)
    )
    sessions = read.sessions | "Clean by session" >> transforms.CleanSessions(
        options, block_list, buckets, store
    )
    pairs = (read.main, sessions.main) | "Pairs" >> beam.Flatten()
    queries = pairs | "Aggregate clicks" >> transforms.AggregateClicks(options, buckets, store)
    offered = (
        pipeline
        | "Corpus files" >> beam.Create([file.path for file in corpus])
        | "Read corpus" >> transforms.ReadCorpus(options, buckets, store)
    )
    titles = (
        (queries.titles, offered.main)
        | "Clicked and offered titles" >> beam.Flatten()
        | "Sum by title" >> transforms.SumTitles(options, directory, store)
    )
    vocabulary = (
        (queries.ngrams, titles.ngrams)
        | "All trigrams" >> beam.Flatten()
        | "Count trigrams" >> beam.CombineGlobally(blocks.sum_counts)
        | "Choose trigrams" >> beam.Map(make_vocabulary, options, known)
    )
    pool = titles.pool | "Fill pool" >> beam.CombineGlobally(
        blocks.fill_pool, options.negative_pool
    )
    records = {"queries": queries.main, "titles": titles.main} | "Make records" >> (
        DrawNegatives(options, shards, directory, pool, store)
    )
    written = records.main | "Write records" >> WriteShards(
        options, shards, directory, vocabulary, progress
    )
    rejects = read.rejects | "Keep rejects" >> transforms.WriteRejects(directory)
    counts = (
        tuple(one.counts for one in (read, offered, sessions, queries, titles, written))
        | "All counts" >> beam.Flatten()
        | "Sum counts" >> beam.CombineGlobally(blocks.sum_counts)
    )
    _ = (
        pipeline
        | "Once" >> beam.Create([directory])
        | "Write manifest"
        >> beam.Map(
            _write_manifest,
            counts=pvalue.AsSingleton(counts),
            vocabulary=pvalue.AsSingleton(vocabulary),
            titles=pvalue.AsIter(titles.files),
            clicked_titles=pvalue.AsIter(records.files),
            shards=pvalue.AsIter(written.main),
            rejects=pvalue.AsIter(rejects),
            seen=pvalue.AsIter(written.seen),
        )
    )


def _write_manifest(
    directory: str,
    counts: dict[str, int],
    vocabulary: Vocabulary,
    titles: Iterable[str],
    clicked_titles: Iterable[str],
    shards: Iterable[tuple[int, str]],
    rejects: Iterable[tuple[int, str]],
    seen: Iterable[bytes],
) -> None:
    words: dict[int, bool] = {}
    samples: list[PairRecord] = []
    for block, coverage in blocks.unpack_all(seen):
        words = Coverage({}, {**words, **coverage.words}).trim().words
        counts = blocks.sum_counts([counts, coverage.counts])
        samples += block
    samples = sorted(samples, key=record_order)[:SAMPLES]
    manifest = Manifest(
        counts=dict(sorted(counts.items())),
        ngrams=list(vocabulary.ngrams),
        titles=sorted(titles),
        clicked_titles=sorted(clicked_titles),
        shards=sorted(shards),
        rejects=sorted(rejects),
        samples=[
            {"query": query, "clicks": clicks, "titles": [list(title) for title in titles]}
            for _, query, clicks, titles in samples
        ],
        covered_words=(len(words), sum(words.values())),
    )
    with create(FileSystems.join(directory, PARTS, _MANIFEST)) as file:
        file.write(json.dumps(manifest.__dict__).encode())
