"""The pipeline of `pipelines.embed`: a corpus of any size as Parquet files of vectors.

Every runner writes the same bytes, because the titles of each output file are one batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.ml.inference.base import ModelHandler, RunInference
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.common.terminal import say
from dssm_tf.export import load
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.tables.columns import CORPUS
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import rebatch
from pipelines.manifest import load_files, save_files
from pipelines.output import output_directory
from pipelines.runners import prepare
from pipelines.runners import run as run_pipeline
from pipelines.shards import OutputFile, VersionGuard, write_output_file
from pipelines.sources import Piece, find_files, open_piece

NAME = "vectors"
TITLES_PER_FILE = 1 << 14
ChunkKey = tuple[int, int]
"""Numbers of a corpus and of a chunk of its titles; each chunk becomes one file."""
Chunk = tuple[ChunkKey, list[tuple[str, str]]]
"""A chunk: its key, and the id and text of each title."""


def _read(file: tuple[int, str], layout: Layout) -> Iterator[Chunk]:
    number, path = file
    with open_piece(Piece(number, path), layout) as table:
        if table.is_empty:
            return
        frames = (frame for frame, _ in table.scan(CORPUS))
        for chunk, titles in enumerate(rebatch(frames, TITLES_PER_FILE)):
            yield (number, chunk), titles.select("doc_id", "title").rows()


class TitleEncoder(ModelHandler[Chunk, tuple[ChunkKey, OutputFile], VectorRanker]):
    """Encodes each chunk of titles and writes it as a file; a worker loads the model once.

    Args:
        model: directory of the model.
        directory: directory that workers write into.
    """

    def __init__(self, model: str, directory: str) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)  # each element is a chunk
        self._model, self._directory = model, directory
        self._version_guard = VersionGuard()

    def load_model(self) -> VectorRanker:
        """Loads the model."""
        return load.load_vector_ranker(self._model)

    def run_inference(
        self, batch: Sequence[Chunk], model: VectorRanker, inference_args: Any = None
    ) -> Iterator[tuple[ChunkKey, OutputFile]]:
        """Encodes and writes each chunk."""
        for key, rows in batch:
            ids, texts = zip(*rows, strict=True)
            vectors = model.encode_titles(list(texts), prior=True)
            vector = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
            columns, file = {"id": ids, "text": texts, "vector": vector}, BytesIO()
            parquet.write_table(pa.table(columns), file, compression="zstd")
            yield key, write_output_file(self._directory, NAME, 0, len(rows), file.getvalue())


def _save_list(directory: str, written: Iterable[tuple[ChunkKey, OutputFile]]) -> None:
    save_files(directory, NAME, (file for _, file in sorted(written)))


class EncodedCorpus(NamedTuple):
    """The number of vectors that were written, and their dimension."""

    vectors: int
    dimension: int


def encode_corpus(
    model: str,
    input: Sequence[str],
    output: str,
    beam_flags: Sequence[str] = (),
    *,
    runner: str = "DirectRunner",
) -> EncodedCorpus:
    """Writes the vectors of a corpus.

    Args:
        model: directory of the model.
        input: files, globs or directories of corpora.
        output: directory to write.
        beam_flags: flags of Beam and of its runner.
        runner: any Beam runner.

    Raises:
        UserError: bad input; no output is left.
    """
    prepare(beam_flags, [*input, output])
    layout = Layout(title_fields=load.model_title_fields(Path(model)))
    dimension = load.load_vector_ranker(model).encode_titles([], prior=True).shape[1]
    matched = find_files(input)
    say(*matched.notes, to=sys.stderr)
    files = [*enumerate(file.path for file in matched.files)]
    with output_directory(output, overwrite=False) as target:

        def add_steps(pipeline: beam.Pipeline) -> None:
            written = (
                pipeline
                | "Files" >> beam.Create(files)
                | "Spread files" >> beam.Reshuffle()
                | "Read titles" >> beam.FlatMap(_read, layout)
                | "Spread titles" >> beam.Reshuffle()
                | "Encode and write" >> RunInference(TitleEncoder(model, target.workers))
            )
            _ = (
                pipeline
                | "Once" >> beam.Create([target.workers])
                | "List files" >> beam.Map(_save_list, pvalue.AsIter(written))
            )

        run_pipeline(add_steps, runner, beam_flags, ("--model", "--input", "--output"))
        vector_files = load_files(target.workers, NAME)
        if not vector_files:
            raise UserError(f"{' '.join(input)} holds no title.")
        target.rename(
            {
                file.path: f"{NAME}-{number:05}-of-{len(vector_files):05}.parquet"
                for number, file in enumerate(vector_files)
            }
        )
    return EncodedCorpus(sum(file.rows for file in vector_files), dimension)
