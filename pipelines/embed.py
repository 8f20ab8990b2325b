"""Encodes a corpus of any size: `python -m pipelines.embed --model RUN --input C --output OUT`.

On any Beam runner what `dssm embed --out FILE.parquet` does on one machine: Parquet files with
`id`, `text` and `vector`, of which `dssm index --vectors 'OUT/*.parquet'` makes an index.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.runners.runner import PipelineState
from apache_beam.utils.shared import Shared

from dssm_tf.common.boundary import run_command
from dssm_tf.common.checksums import CHECKSUMS
from dssm_tf.common.command_line import Parser
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.model_versions import newest_version
from dssm_tf.runtime import Ranker
from dssm_tf.runtime.compact_files import COMPACT
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.layout import Layout
from dssm_tf.text.fields import parse_fields
from pipelines.output import create, is_local
from pipelines.progress import quiet_console
from pipelines.runners import LOCAL_RUNNERS, BadFlag, choose_runner
from pipelines.sources import Piece, find_corpus, plan, titles_of

NAME = "vectors"
ABOUT = "vectors.json"

_USER_ERROR = re.compile(r"UserError: (.*?)(?: \[while running|\n|$)", re.S)
_MODEL_FILES = (
    "*.yaml", "*.json", "*.txt", "*.tsv", "*.h5", "*.npy", "*.npz", "*.md", CHECKSUMS,
)  # fmt: skip

Titles = list[tuple[str, str]]


@dataclass(frozen=True)
class EmbedOptions:
    """What is encoded, by which model.

    Attributes:
        model: directory that `dssm train` or `dssm export --format compact` wrote; local, where
            all workers see it, or of any Beam file system.
        input: corpora: files, globs or directories, with `doc_id` and `title`.
        output: directory of the vectors.
        cosine: whether vectors are without the titles' prior.
        batch_size: titles encoded at once.
        encoding: of the input.
        title_fields: columns that a title is made of, with commas between.
    """

    model: str
    input: tuple[str, ...]
    output: str
    cosine: bool = False
    batch_size: int = 1024
    encoding: str = "utf-8"
    title_fields: str = "title"


class EncodeTitles(beam.PTransform):
    """Turns titles into vectors, many at a time.

    Input:  PCollection[(doc_id, title)].
    Output: PCollection[pyarrow.Table] with `id`, `text` and `vector`.
    """

    def __init__(self, options: EmbedOptions, dimension: int) -> None:
        super().__init__()
        self._options = options
        self._dimension = dimension

    def expand(self, titles: beam.PCollection) -> beam.PCollection:
        """Adds the steps."""
        size = self._options.batch_size
        return (
            titles
            | "Batch" >> beam.BatchElements(min_batch_size=size, max_batch_size=size)
            | "Encode" >> beam.ParDo(_Encode(self._options, self._dimension, Shared()))
        )


class _Encode(beam.DoFn):
    """Loads the model once a process."""

    def __init__(self, options: EmbedOptions, dimension: int, shared: Shared) -> None:
        super().__init__()
        self._options = options
        self._dimension = dimension
        self._shared = shared
        self._count = Metrics.counter(NAME, "titles")

    def setup(self) -> None:
        self._ranker = self._shared.acquire(lambda: load_model(self._options.model))

    def process(self, batch: Titles) -> Iterator[pyarrow.Table]:
        ids, texts = [one for one, _ in batch], [one for _, one in batch]
        vectors = self._ranker.encode_titles(texts, prior=not self._options.cosine)
        flat = pyarrow.array(vectors.ravel(), pyarrow.float32())
        columns = [
            pyarrow.array(ids, pyarrow.string()),
            pyarrow.array(texts, pyarrow.string()),
            pyarrow.FixedSizeListArray.from_arrays(flat, self._dimension),
        ]
        self._count.inc(len(batch))
        yield pyarrow.Table.from_arrays(columns, schema=schema(self._dimension))


def schema(dimension: int) -> pyarrow.Schema:
    """The columns of the files, as `dssm embed` has them."""
    vector = pyarrow.list_(pyarrow.float32(), dimension)
    return pyarrow.schema(
        [("id", pyarrow.string()), ("text", pyarrow.string()), ("vector", vector)]
    )


def load_model(model: str) -> Any:
    """The model of a directory of any file system; a compact one needs NumPy alone."""
    if is_local(model):
        return _load(Path(model))
    with tempfile.TemporaryDirectory() as copy:
        patterns = [FileSystems.join(model, pattern) for pattern in _MODEL_FILES]
        try:
            found = [
                one.path for match in FileSystems.match(patterns) for one in match.metadata_list
            ]
        except BeamIOError as error:
            raise UserError(f"--model {model} cannot be read: {error}.") from error
        for path in found:
            with FileSystems.open(path) as file:
                (Path(copy) / path.rsplit("/", 1)[-1]).write_bytes(file.read())
        return _load(Path(copy))


def _load(directory: Path) -> Any:
    if (newest_version(directory) / COMPACT).is_file():
        return Ranker.load(directory)
    from dssm_tf.common.quiet import load_tensorflow

    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    return SemanticRanker.load(directory)


def embed(
    options: EmbedOptions,
    runner: str = "DirectRunner",
    beam_flags: Sequence[str] = (),
    *,
    verbose: bool = False,
) -> dict[str, Any]:
    """Encodes a corpus.

    Args:
        options: what.
        runner: any of Beam's.
        beam_flags: for it.
        verbose: whether Beam's log is shown.

    Returns:
        What `vectors.json` holds.

    Raises:
        UserError: bad input; no file of vectors is left.
        BadFlag: Beam does not know a flag.
    """
    chosen = choose_runner(
        runner, beam_flags, verbose=verbose, command="embed", known=_parser().flags()
    )
    if options.batch_size < 1:
        raise UserError(f"--batch-size {options.batch_size}: expected at least 1.")
    layout = Layout(options.encoding, title_fields=parse_fields(options.title_fields))
    files = find_corpus(options.input, layout, "--input")
    pieces = plan(files, layout, CORPUS_COLUMNS, ())
    if is_local(options.output):
        refuse_existing(Path(options.output))
    elif FileSystems.match([FileSystems.join(options.output, f"{NAME}*")])[0].metadata_list:
        raise UserError(f"{options.output} holds vectors already; choose another --output.")
    model = load_model(options.model)
    dimension = model.encode_titles([]).shape[1] + (not options.cosine)
    with ExitStack() as stack:
        if not verbose:
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.ERROR)
        output = options.output
        if is_local(output):  # of a run that fails nothing is left
            output = str(stack.enter_context(atomic_directory(output)))
        pipeline = beam.Pipeline(runner=chosen[0], options=chosen[1])
        _build(pipeline, pieces, layout, options, output, dimension)
        try:
            result = pipeline.run()
            state = result.wait_until_finish()
        except Exception as error:  # Beam's word for whatever a worker raised
            if found := _USER_ERROR.search(str(error)):
                raise UserError(f"{found[1].strip()} Nothing was written.") from error
            raise
        if state not in (PipelineState.DONE, None):
            raise UserError(f"The pipeline ended as {state}; see the runner's log.")
        counted = result.metrics().query()["counters"]
        titles = sum(one.committed or 0 for one in counted if one.key.metric.name == "titles")
        if runner in LOCAL_RUNNERS and not titles:
            raise UserError(f"{' '.join(options.input)} holds no title.")
        about = {
            "titles": titles,
            "dimension": dimension,
            "prior": not options.cosine,
            "model": options.model,
        }
        with create(FileSystems.join(output, ABOUT)) as file:
            file.write(json.dumps(about, indent=2).encode())
    return about


def _build(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    layout: Layout,
    options: EmbedOptions,
    output: str,
    dimension: int,
) -> None:
    _ = (
        pipeline
        | "Pieces" >> beam.Create(list(pieces))
        | "Spread pieces" >> beam.Reshuffle()
        | "Read titles" >> beam.FlatMap(_read, layout)
        | "Vectors" >> EncodeTitles(options, dimension)
        | "Write"
        >> beam.io.WriteToParquetBatched(
            FileSystems.join(output, NAME),
            schema(dimension),
            codec="zstd",
            file_name_suffix=".parquet",
        )
    )


def _read(piece: Piece, layout: Layout) -> Iterable[tuple[str, str]]:
    return titles_of(piece, layout)


def _parser() -> Parser:
    p = Parser(
        prog="python -m pipelines.embed",
        description="Encodes a corpus of any size on any Beam runner, to Parquet files.",
        epilog="Flags that are not listed go to Beam.",
        passes_on=True,
    )
    p.add_argument(
        "--model",
        required=True,
        help="directory `dssm train` wrote, such as gs://BUCKET/RUN, or, to load no TensorFlow, a "
        "version that `dssm export --format compact` did",
    )
    p.add_argument(
        "--input",
        required=True,
        nargs="+",
        metavar="FILE",
        help="corpora with doc_id, title: .tsv .csv .jsonl (also .gz) or .parquet files, globs or "
        "directories",
    )
    p.add_argument("--output", required=True, help="directory to write, such as gs://BUCKET/V")
    p.add_argument("--cosine", action="store_true", help="vectors without the titles' prior")
    p.add_argument("--batch-size", type=int, default=1024, help="titles encoded at once")
    p.add_argument("--encoding", default="utf-8", help="of the text of --input")
    p.add_argument(
        "--title-fields",
        default="title",
        metavar="COLUMNS",
        help="columns that a title is made of, with commas between, as preprocess had them",
    )
    p.add_argument("--runner", default="DirectRunner", help="any Beam runner")
    p.add_argument("--verbose", action="store_true", help="show Beam's log")
    return p


def run(argv: Sequence[str] | None = None) -> int:
    """Runs embed as the command line does.

    Returns:
        0 when the output is complete, 1 when the job failed with a one-line reason.
    """

    def work() -> None:
        namespace, flags = _parser().parse_known_args(argv)
        given = vars(namespace)
        runner, verbose = given.pop("runner"), given.pop("verbose")
        options = EmbedOptions(**(given | {"input": tuple(given["input"])}))
        try:
            about = embed(options, runner, flags, verbose=verbose)
        except BadFlag as error:
            _parser().error(str(error))
        quiet_console().print(
            f"{about['titles']:,} vectors of length {about['dimension']} written: {options.output}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    return run_command("pipelines.embed", work)


if __name__ == "__main__":
    from pipelines.embed import run as entry  # under its own name, which workers know

    sys.exit(entry())
