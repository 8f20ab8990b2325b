"""Runs the functions of the workers in plain loops, without a Beam runner."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from apache_beam.io.filesystem import FileMetadata
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from dssm_tf.data.format import file_name
from dssm_tf.text.growth import grow
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import aggregate, parse_log, write_records
from pipelines.options import PreprocessOptions
from pipelines.shards import PipelineContext, sum_counts
from pipelines.sources import plan
from tests.pipelines.written import WrittenData


def run(
    options: PreprocessOptions, directory: Path, bits: int = 0, order: Random | None = None
) -> tuple[WrittenData, Counter[str]]:
    """Runs all steps; returns the output and the counts.

    Args:
        options: options of preprocess.
        directory: directory of the output.
        bits: writes 2 ** bits files of each kind.
        order: shuffles the input of each step, as a runner may.
    """
    (directory / "parts").mkdir(parents=True)
    context = PipelineContext(options, bits, str(directory))
    shuffle = (order or Random(0)).shuffle
    counts = Counter[str]()

    def step(function: Callable[..., Iterable[Any]], elements: Sequence[Any], *more: Any):
        elements, outputs = list(elements), {}
        shuffle(elements)
        for element in elements:
            for output in function(element, context, *more):
                tag, value = ("main", output)
                if isinstance(output, TaggedOutput):
                    tag, value = output.tag, output.value
                outputs.setdefault(tag, []).append(value)
        counts.update(sum_counts(outputs.pop("counts", [])))
        return lambda tag="main": outputs.get(tag, [])

    def grouped(*blocks, every=True):
        groups = {bucket: [None] for bucket in range(1 << bits)} if every else {}
        for bucket, data in (block for output in blocks for block in output):
            groups.setdefault(bucket, []).append(data)
        for group in groups.values():
            shuffle(group)
        return list(groups.items())

    def pieces(paths, *columns):
        files = [FileMetadata(path, Path(path).stat().st_size) for path in paths]
        return plan(files, options.layout, *columns)

    read = step(parse_log.read_piece, pieces(options.input))
    corpus = step(parse_log.read_corpus, pieces(options.corpus, parse_log.CORPUS_TITLES))
    sessions = step(parse_log.clean_sessions, grouped(read("sessions"), every=False))
    queries = step(aggregate.sum_queries, grouped(read(), sessions()))
    titles = step(
        aggregate.sum_titles,
        grouped(read("titles"), sessions("titles"), queries("titles"), corpus()),
    )
    words = step(aggregate.sum_words, grouped(queries("words"), titles("words")))
    vocabulary = grow(
        Vocabulary((), options.rules),
        sum_counts(words("ngrams")),
        options.vocabulary_size,
        options.min_ngram_count,
    )
    written = [write_records.write_words(element, context, vocabulary) for element in words()]
    known_texts = words("fingerprints"), titles("fingerprints"), Shared()
    tables = [write_records.write_titles(element, context, *known_texts) for element in titles()]
    records = step(write_records.write_queries, queries(), *known_texts, queries("sizes"))()
    for file in [*written, *tables, *records]:
        Path(file.path).rename(directory / file_name(file.kind, file.bucket, 1 << bits))
    shutil.rmtree(directory / "parts")
    return WrittenData(directory), Counter({name: n for name, n in counts.items() if ": " in name})
