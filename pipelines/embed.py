"""Encodes a corpus of any size: `python -m pipelines.embed --model MODEL --input C --output OUT`.

On any Beam runner what `dssm embed --out FILE.parquet` does on one machine: Parquet files with
`id`, `text` and `vector`, of which `dssm index --vectors 'OUT/*.parquet'` makes an index. Every
runner writes the same bytes: a block of titles is encoded at once, wherever it is encoded.
"""

from __future__ import annotations

import pickle
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
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import ModelHandler, RunInference
from pyarrow import parquet

from dssm_tf.common.command_line import run as run_command
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.layout import Layout
from dssm_tf.text.fields import parse_fields
from pipelines.frames import Release, Written, write_part
from pipelines.options import BeamFlags, Several
from pipelines.output import PARTS, create, is_local, open_bytes, output_directory, refuse
from pipelines.runners import choose_runner
from pipelines.sources import Piece, find_files, plan, rows_of

if TYPE_CHECKING:
    from dssm_tf.runtime.vector_ranker import VectorRanker

NAME = "vectors"
BLOCKS_A_FILE = 64
Place = tuple[int, int]
"""A piece of the input, and a part or a block of it."""
Block = tuple[Place, list[tuple[str, str]]]
"""Ids and titles."""
Encoded = tuple[Place, tuple[int, pa.Table]]
"""The piece and the part of it that become a file; the number of a block, with its vectors."""


class Encoder(ModelHandler[Block, Encoded, Any]):
    """Encodes blocks; a worker loads the model once.

    Args:
        model: its directory, on any file system.
        prior: whether the titles' prior is in the vectors.
    """

    def __init__(self, model: str, *, prior: bool) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)  # of blocks
        self._model, self._prior, self._release = model, prior, Release()

    def load_model(self) -> VectorRanker:
        """Loads the model."""
        return load_model(self._model)

    def run_inference(
        self, batch: Sequence[Block], model: VectorRanker, inference_args: Any = None
    ) -> Iterator[Encoded]:
        """Encodes each block by itself."""
        for (piece, number), rows in batch:
            ids, texts = zip(*rows, strict=True)
            vectors = model.encode_titles(list(texts), prior=self._prior)
            columns = {"id": ids, "text": texts, "vector": list(vectors)}
            table = pa.table(columns, schema=_schema(vectors.shape[1]))
            yield (piece, number // BLOCKS_A_FILE), (number, table)


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
        try:
            (found,) = FileSystems.match([FileSystems.join(model, "**")])
        except BeamIOError as error:
            raise UserError(f"--model {model} cannot be read: {error}.") from error
        for one in found.metadata_list:
            path = Path(copy, one.path.removeprefix(model).lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_bytes(one.path) as file:
                path.write_bytes(file.read())
        yield Path(copy)


def _schema(dimension: int) -> pa.Schema:
    vector = pa.list_(pa.float32(), dimension)
    return pa.schema({"id": pa.string(), "text": pa.string(), "vector": vector})


def _blocks(piece: Piece, layout: Layout, size: int) -> Iterator[Block]:
    rows = rows_of(piece, layout, CORPUS_COLUMNS)
    for number, block in enumerate(iter(lambda: [*islice(rows, size)], [])):
        yield (piece.number, number), block


def _write(
    encoded: tuple[Place, Iterable[tuple[int, pa.Table]]], directory: str
) -> tuple[Place, Written]:
    place, blocks = encoded
    table = pa.concat_tables(one for _, one in sorted(blocks, key=lambda block: block[0]))
    file = BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return place, write_part(directory, NAME, 0, len(table), file.getvalue())


def _list(directory: str, files: Iterable[tuple[Place, Written]]) -> None:
    with create(FileSystems.join(directory, PARTS, NAME)) as file:
        file.write(pickle.dumps(sorted(files)))


def embed(
    *beam_flags: BeamFlags,
    model: str,
    input: Several,
    output: str,
    cosine: bool = False,
    batch_size: int = 1024,
    encoding: str = "utf-8",
    title_fields: str = "",
    runner: str = "DirectRunner",
    verbose: bool = False,
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
        batch_size: titles encoded at once.
        encoding: encoding of --input.
        title_fields: comma-separated columns that make up a title; by default, those
            that the model learned from.
        runner: any Beam runner.
        verbose: show Beam's log.

    Raises:
        UserError: bad input; no file of vectors is left.
    """
    from dssm_tf.export import load

    flags = ("--model", "--input", "--output", "--batch-size", "--encoding", "--title-fields")
    chosen = choose_runner(runner, beam_flags, flags, verbose=verbose)
    if batch_size < 1:
        raise UserError(f"--batch-size {batch_size}: expected at least 1.")
    files = find_files(input)
    refuse(output, [one.path for one in files], overwrite=False)
    with _here(model) as path:
        fields = parse_fields(title_fields) if title_fields else load.learned_fields(path)
        dimension = load.load_model(path).encode_titles([], prior=not cosine).shape[1]
    layout = Layout(encoding, title_fields=fields)
    pieces = plan(files, layout, [*CORPUS_COLUMNS], ())
    with output_directory(output, overwrite=False) as place:

        def add_steps(pipeline: beam.Pipeline) -> None:
            written = (
                pipeline
                | "Pieces" >> beam.Create(pieces)
                | "Spread pieces" >> beam.Reshuffle()
                | "Read titles" >> beam.FlatMap(_blocks, layout, batch_size)
                | "Spread blocks" >> beam.Reshuffle()
                | "Encode" >> RunInference(Encoder(model, prior=not cosine))
                | "Typed" >> beam.Map(tuple).with_output_types(tuple[Place, tuple[int, Any]])
                | "Blocks of a file" >> beam.GroupByKey()
                | "Write" >> beam.Map(_write, place.workers)
            )
            once = pipeline | "Once" >> beam.Create([place.workers])
            _ = once | "List files" >> beam.Map(_list, pvalue.AsIter(written))

        chosen.run(add_steps)
        with open_bytes(FileSystems.join(place.workers, PARTS, NAME)) as listed:
            parts: list[Written] = [one for _, one in pickle.loads(listed.read())]
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
