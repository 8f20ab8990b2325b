"""Encodes a corpus of any size: `python -m pipelines.embed --model RUN --input C --output OUT`.

On any Beam runner what `dssm embed --out FILE.parquet` does on one machine: Parquet files with
`id`, `text` and `vector`, of which `dssm index --vectors 'OUT/*.parquet'` makes an index.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared

from dssm_tf.common.command_line import run as run_command
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import newest_version
from dssm_tf.runtime import Ranker
from dssm_tf.runtime.compact_files import COMPACT
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.layout import Layout
from dssm_tf.text.fields import parse_fields
from pipelines.options import BeamFlags, Several
from pipelines.output import is_local
from pipelines.runners import choose_runner
from pipelines.sources import find_files, plan, rows_of

NAME = "vectors"


class _Encode(beam.DoFn):
    """Turns batches of ids and titles into tables with vectors; loads the model once a process."""

    def __init__(self, model: str, schema: pa.Schema, *, prior: bool) -> None:
        super().__init__()
        self._model, self._schema, self._prior = model, schema, prior
        self._shared = Shared()

    def setup(self) -> None:
        self._ranker = self._shared.acquire(lambda: load_model(self._model))

    def process(self, batch: Sequence[tuple[str, str]]) -> Iterator[pa.Table]:
        ids, texts = zip(*batch, strict=True)
        vectors = self._ranker.encode_titles(list(texts), prior=self._prior)
        Metrics.counter(NAME, "titles").inc(len(batch))
        columns = {"id": ids, "text": texts, "vector": list(vectors)}
        yield pa.table(columns, schema=self._schema)


def load_model(model: str) -> Any:
    """The model of a directory of any file system; a compact one needs NumPy alone."""
    if is_local(model):
        return _load(Path(model))
    with tempfile.TemporaryDirectory() as copy:
        try:
            (found,) = FileSystems.match([FileSystems.join(model, "*.*")])
        except BeamIOError as error:
            raise UserError(f"--model {model} cannot be read: {error}.") from error
        for one in found.metadata_list:
            with FileSystems.open(one.path) as file:
                Path(copy, one.path.rsplit("/", 1)[-1]).write_bytes(file.read())
        return _load(Path(copy))


def _load(directory: Path) -> Any:
    if (newest_version(directory) / COMPACT).is_file():
        return Ranker.load(directory)
    from dssm_tf.common.quiet import load_tensorflow

    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    return SemanticRanker.load(directory)


def embed(
    *beam_flags: BeamFlags,
    model: str,
    input: Several,
    output: str,
    cosine: bool = False,
    batch_size: int = 1024,
    encoding: str = "utf-8",
    title_fields: str = "title",
    runner: str = "DirectRunner",
    verbose: bool = False,
) -> None:
    """Encode a corpus of any size on any Beam runner, to Parquet files.

        python -m pipelines.embed --model RUN --input 'titles-*.tsv.gz' --output VECTORS

    Flags that are not listed go to Beam.

    Args:
        beam_flags: flags of Beam and of its runner.
        model: directory `dssm train` wrote, such as gs://BUCKET/RUN, or, to load no TensorFlow, a
            version that `dssm export --format compact` did; local, where all workers see it, or of
            any Beam file system.
        input: corpora with doc_id, title: .tsv .csv .jsonl (also .gz) or .parquet files, globs or
            directories.
        output: directory to write, such as gs://BUCKET/V.
        cosine: vectors without the titles' prior.
        batch_size: titles encoded at once.
        encoding: of the text of --input.
        title_fields: columns that a title is made of, with commas between, as preprocess had them.
        runner: any Beam runner.
        verbose: show Beam's log.

    Raises:
        UserError: bad input; no file of vectors is left.
    """
    flags = ("--model", "--input", "--output", "--batch-size", "--encoding", "--title-fields")
    chosen = choose_runner(runner, beam_flags, flags, verbose=verbose)
    if batch_size < 1:
        raise UserError(f"--batch-size {batch_size}: expected at least 1.")
    layout = Layout(encoding, title_fields=parse_fields(title_fields))
    pieces = plan(find_files(input), layout, [*CORPUS_COLUMNS], ())
    with ExitStack() as stack:
        place = output
        if is_local(output):  # of a run that fails nothing is left
            place = str(stack.enter_context(atomic_directory(output)))
        elif FileSystems.match([FileSystems.join(output, f"{NAME}*")])[0].metadata_list:
            raise UserError(f"{output} holds vectors already; choose another --output.")
        dimension = load_model(model).encode_titles([], prior=not cosine).shape[1]
        vector = pa.list_(pa.float32(), dimension)
        schema = pa.schema({"id": pa.string(), "text": pa.string(), "vector": vector})

        def add_steps(pipeline: beam.Pipeline) -> None:
            _ = (
                pipeline
                | "Pieces" >> beam.Create(pieces)
                | "Spread pieces" >> beam.Reshuffle()
                | "Read titles" >> beam.FlatMap(rows_of, layout, CORPUS_COLUMNS)
                | "Batch" >> beam.BatchElements(batch_size, batch_size)
                | "Encode" >> beam.ParDo(_Encode(model, schema, prior=not cosine))
                | "Write"
                >> beam.io.WriteToParquetBatched(
                    FileSystems.join(place, NAME),
                    schema,
                    codec="zstd",
                    file_name_suffix=".parquet",
                )
            )

        counters = chosen.run(add_steps).metrics().query()["counters"]
        titles = sum(one.committed or 0 for one in counters if one.key.metric.name == "titles")
        if chosen.local and not titles:
            raise UserError(f"{' '.join(input)} holds no title.")
    sys.stderr.write(f"{titles:,} vectors of length {dimension} written: {output}\n")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs embed as the command line does; returns 0 done, 1 failed, 2 wrong usage."""
    return run_command("pipelines.embed", embed, sys.argv[1:] if argv is None else argv, "")


if __name__ == "__main__":
    from pipelines.embed import run as entry  # under its own name, which workers know

    sys.exit(entry())
