"""Encodes a corpus of any size: `python -m pipelines.embed --model MODEL --input C --output OUT`.

On any Beam runner what `dssm embed --out FILE.parquet` does on one machine: Parquet files with
`id`, `text` and `vector`, to be loaded into a search engine. Every
runner writes the same bytes: the titles of a file are encoded at once, wherever they are encoded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from pyarrow import parquet

from dssm_tf.common.command_line import run as run_command
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.layout import Layout
from dssm_tf.text.fields import parse_fields
from pipelines.frames import Release, Written, write_part
from pipelines.options import BeamFlags, Several
from pipelines.output import is_local, open_bytes, output_directory, save
from pipelines.runners import run as run_pipeline
from pipelines.sources import Piece, find_files, opened

if TYPE_CHECKING:
    from dssm_tf.runtime.vector_ranker import VectorRanker

NAME = "vectors"
TITLES_A_FILE = 1 << 14
Titles = tuple[int, int, list[tuple[str, str]]]
"""File and part of it that become a file; ids and titles."""


def load_model(model: str) -> VectorRanker:
    """The model of a directory of any file system; a compact one needs NumPy alone.

    Raises:
        UserError: there is none.
    """
    from dssm_tf.export import load  # TensorFlow's, if the model needs it

    with _here(model) as path:
        return load.load_model(path)


@contextmanager
def _here(model: str) -> Iterator[Path]:
    """A directory of any file system, or a copy of it, on this machine."""
    if is_local(model):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory() as copy:
        for one in FileSystems.match([FileSystems.join(model, "**")])[0].metadata_list:
            path = Path(copy, one.path.removeprefix(model).lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_bytes(one.path) as file:
                path.write_bytes(file.read())
        yield Path(copy)


def _read(file: tuple[int, str], layout: Layout) -> Iterator[Titles]:
    number, path = file
    with opened(Piece(number, path), layout) as table:
        rows = (row for _, row in table.rows(CORPUS_COLUMNS))
        for part, titles in enumerate(iter(lambda: [*islice(rows, TITLES_A_FILE)], [])):
            yield number, part, titles


class Encoder(ModelHandler[Titles, tuple[int, int, pa.Table], Any]):
    """Encodes the titles of each file by themselves; a worker loads the model once.

    Args:
        model: its directory, on any file system.
        prior: whether the titles' prior is in the vectors.
    """

    def __init__(self, model: str, *, prior: bool) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)  # of files
        self._model, self._prior, self._release = model, prior, Release()

    def load_model(self) -> VectorRanker:
        """Loads the model."""
        return load_model(self._model)

    def run_inference(
        self, batch: Sequence[Titles], model: VectorRanker, inference_args: Any = None
    ) -> Iterator[tuple[int, int, pa.Table]]:
        """Encodes each file by itself."""
        for number, part, rows in batch:
            ids, texts = zip(*rows, strict=True)
            vectors = model.encode_titles(list(texts), prior=self._prior)
            vector = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
            yield number, part, pa.table({"id": ids, "text": texts, "vector": vector})


def _write(encoded: tuple[int, int, pa.Table], directory: str) -> tuple[int, int, Written]:
    number, part, table = encoded
    file = BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return number, part, write_part(directory, NAME, 0, len(table), file.getvalue())


def _list(directory: str, files: Iterable[tuple[int, int, Written]]) -> None:
    save(directory, NAME, sorted(files))


def embed(
    *beam_flags: BeamFlags,
    model: str,
    input: Several,
    output: str,
    cosine: bool = False,
    encoding: str = "utf-8",
    title_fields: str = "",
    runner: str = "DirectRunner",
) -> None:
    """Encode a corpus of any size on any Beam runner, to Parquet files.

        python -m pipelines.embed --model EXPORT --input 'titles-*.tsv.gz' --output VECTORS

    Flags that are not listed go to Beam.

    Args:
        beam_flags: flags of Beam and of its runner.
        model: directory that `dssm export` wrote, such as gs://BUCKET/EXPORT, or a run; one of
            --format compact needs no TensorFlow. Local, where all workers see it, or of any Beam
            file system.
        input: corpora with doc_id, title: .tsv .csv .jsonl (also .gz) or .parquet files, globs or
            directories.
        output: directory to write, such as gs://BUCKET/V.
        cosine: vectors without the titles' prior.
        encoding: encoding of --input.
        title_fields: comma-separated columns that make up a title; by default, those
            that the model learned from.
        runner: any Beam runner.

    Raises:
        UserError: bad input; no file of vectors is left.
    """
    from dssm_tf.export import load

    flags = ("--model", "--input", "--output", "--encoding", "--title-fields")
    FileSystems.set_options(PipelineOptions([*beam_flags]))
    with _here(model) as path:
        fields = parse_fields(title_fields) if title_fields else load.learned_fields(path)
        dimension = load.load_model(path).encode_titles([], prior=not cosine).shape[1]
    layout = Layout(encoding, title_fields=fields)
    files = [*enumerate(one.path for one in find_files(input))]
    with output_directory(output, overwrite=False) as place:

        def add_steps(pipeline: beam.Pipeline) -> None:
            written = (
                pipeline
                | "Files" >> beam.Create(files)
                | "Spread files" >> beam.Reshuffle()
                | "Read titles" >> beam.FlatMap(_read, layout)
                | "Spread titles" >> beam.Reshuffle()
                | "Encode" >> RunInference(Encoder(model, prior=not cosine))
                | "Write" >> beam.Map(_write, place.workers)
            )
            once = pipeline | "Once" >> beam.Create([place.workers])
            _ = once | "List files" >> beam.Map(_list, pvalue.AsIter(written))

        run_pipeline(add_steps, runner, beam_flags, flags)
        parts: list[Written] = [one for *_, one in place.load(NAME)]
        if not parts:
            raise UserError(f"{' '.join(input)} holds no title.")
        count = len(parts)
        place.take(
            {one.path: f"{NAME}-{at:05}-of-{count:05}.parquet" for at, one in enumerate(parts)}
        )
    titles = sum(one.rows for one in parts)
    sys.stderr.write(f"{titles:,} vectors of length {dimension} written: {output}\n")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs embed as the command line does; returns 0 done, 1 failed, 2 wrong usage."""
    return run_command("pipelines.embed", embed, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    from pipelines.embed import run as entry  # under its own name, which workers know

    sys.exit(entry())
