"""The pipeline of `pipelines.embed`: a corpus of any size as Parquet files of vectors.

Every runner writes the same bytes: the titles of a file are encoded at once, wherever they are
encoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

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
from pipelines.frames import Release, Written, write_part
from pipelines.output import output_directory, save
from pipelines.runners import prepare
from pipelines.runners import run as run_pipeline
from pipelines.sources import Piece, find_files, opened

NAME = "vectors"
TITLES_A_FILE = 1 << 14
At = tuple[int, int]
"""A corpus, and which part of it becomes a file."""
Titles = tuple[At, list[tuple[str, str]]]
"""Ids and titles that become a file."""


def _read(file: tuple[int, str], layout: Layout) -> Iterator[Titles]:
    number, path = file
    with opened(Piece(number, path), layout) as table:
        frames = (frame for frame, _ in table.scan(CORPUS))
        for part, titles in enumerate(rebatch(frames, TITLES_A_FILE)):
            yield (number, part), titles.select("doc_id", "title").rows()


class Encoder(ModelHandler[Titles, tuple[At, Written], VectorRanker]):
    """Encodes the titles of each file by themselves and writes it; a worker loads the model once.

    Args:
        model: its directory.
        directory: where workers write.
    """

    def __init__(self, model: str, directory: str) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)  # of files
        self._model, self._directory = model, directory
        self._release = Release()

    def load_model(self) -> VectorRanker:
        """Loads the model."""
        return load.load_model(self._model)

    def run_inference(
        self, batch: Sequence[Titles], model: VectorRanker, inference_args: Any = None
    ) -> Iterator[tuple[At, Written]]:
        """Encodes and writes each file by itself."""
        for at, rows in batch:
            ids, texts = zip(*rows, strict=True)
            vectors = model.encode_titles(list(texts), prior=True)
            vector = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
            columns, file = {"id": ids, "text": texts, "vector": vector}, BytesIO()
            parquet.write_table(pa.table(columns), file, compression="zstd")
            yield at, write_part(self._directory, NAME, 0, len(rows), file.getvalue())


def encode_corpus(
    model: str,
    input: Sequence[str],
    output: str,
    beam_flags: Sequence[str] = (),
    *,
    runner: str = "DirectRunner",
) -> tuple[int, int]:
    """Writes the vectors of a corpus.

    Args:
        model: its directory.
        input: corpora.
        output: directory to write.
        beam_flags: flags of Beam and of its runner.
        runner: any Beam runner.

    Returns:
        How many vectors were written, and their dimension.

    Raises:
        UserError: bad input; no file of vectors is left.
    """
    prepare(beam_flags, [*input, output])
    layout = Layout(title_fields=load.model_title_fields(Path(model)))
    dimension = load.load_model(model).encode_titles([], prior=True).shape[1]
    matched = find_files(input)
    say(*matched.notes, to=sys.stderr)
    files = [*enumerate(file.path for file in matched.files)]
    with output_directory(output, overwrite=False) as place:

        def add_steps(pipeline: beam.Pipeline) -> None:
            written = (
                pipeline
                | "Files" >> beam.Create(files)
                | "Spread files" >> beam.Reshuffle()
                | "Read titles" >> beam.FlatMap(_read, layout)
                | "Spread titles" >> beam.Reshuffle()
                | "Encode and write" >> RunInference(Encoder(model, place.workers))
            )
            _ = (
                pipeline
                | "Once" >> beam.Create([place.workers])
                | "List files"
                >> beam.Map(lambda to, files: save(to, NAME, sorted(files)), pvalue.AsIter(written))
            )

        run_pipeline(add_steps, runner, beam_flags, ("--model", "--input", "--output"))
        parts: list[Written] = [one for _, one in place.load(NAME)]
        if not parts:
            raise UserError(f"{' '.join(input)} holds no title.")
        place.take(
            {one.path: f"{NAME}-{at:05}-of-{len(parts):05}.parquet" for at, one in enumerate(parts)}
        )
    return sum(one.rows for one in parts), dimension
