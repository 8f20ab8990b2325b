"""`dssm embed`: texts to vectors, however many."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from dssm_tf.commands.fields import warn_of_other_fields
from dssm_tf.commands.parser import Commands, add_encoding, add_title_fields, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.tables.texts import Text

_BATCHES = 16  # batches read at once, so that texts of like length can share one


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        embed_command(
            arguments.model,
            arguments.input,
            arguments.out,
            side=arguments.side,
            column=arguments.column,
            id_column=arguments.id_column,
            batch_size=arguments.batch_size,
            format=getattr(arguments, "format", None),
            cosine=arguments.cosine,
            encoding=arguments.encoding,
            title_fields=parse_fields(arguments.title_fields),
        )

    parser = command(commands, "embed", run, "turn texts into semantic vectors")
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument(
        "--input",
        required=True,
        type=Path,
        help="texts: .txt (one a line), .tsv, .csv, .jsonl, .parquet, also .gz; - for stdin",
    )
    parser.add_argument(
        "--out", required=True, type=Path, help=".npy or .parquet; a directory for an engine"
    )
    parser.add_argument(
        "--format",
        choices=("npy", "parquet", "opensearch", "elasticsearch", "vespa", "pgvector"),
        default=argparse.SUPPRESS,
        help="what to write; as --out is named if not given. For engines: titles with vector and "
        "prior as they load them, what the index is told, and features for learning to rank",
    )
    parser.add_argument("--side", choices=("title", "query"), default="title", help="which tower")
    parser.add_argument(
        "--cosine",
        action="store_true",
        help="unit vectors, for cosines, without the dimension that holds the titles' prior",
    )
    parser.add_argument("--column", help="column that holds the text")
    parser.add_argument("--id-column", help="column that holds the id")
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument("--batch-size", type=int, default=1024, help="texts encoded at once")


def embed_command(
    model: Path | str,
    input: Path | str,
    out: Path | str,
    side: str = "title",
    column: str | None = None,
    id_column: str | None = None,
    batch_size: int = 1024,
    format: str | None = None,
    cosine: bool = False,
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = ("title",),
    console: Console | None = None,
) -> int:
    """Writes the semantic vector of every text, in the order of the input.

    Texts are read, encoded and written some thousands at a time, so memory does
    not grow with the input. The inner product of a query's and a title's is the model's score:
    behind a unit vector stands one more number, 1 of a query and the weighted log-prior of a
    title. A text without a word has zeros before it. Equal texts far apart in the input can
    differ by rounding (about 1e-7).

    Args:
        model: directory that `dssm train` wrote.
        input: file of texts, see `tables.texts`; `-` reads standard input.
        out: `.npy` or `.parquet`, see `vectors.open_writer`, or a directory, see
            `engines.open_engine_writer`; replaced when complete.
        side: `title` or `query`, the tower to use.
        column: column of the text; `title`, `query` or `text` by default.
        id_column: column of the id; `doc_id`, `query_id` or `id` by default, if there is one.
        batch_size: texts encoded at once, at least 1.
        format: `npy`, `parquet` or a name of `engines.ENGINES`; None as `out` is named.
        cosine: unit vectors alone, whose inner product is the cosine: they rank as the model does
            where its prior has no weight.
        encoding: of the input.
        title_fields: columns that a title is made of.
        console: where to print; standard error by default.

    Returns:
        The number of texts.

    Raises:
        UserError: an input cannot be used, or holds no text.
    """
    from rich.console import Console

    from dssm_tf.retrieval.engines import ENGINES, open_engine_writer
    from dssm_tf.retrieval.vectors import check_output, ids_path, open_writer
    from dssm_tf.tables.texts import open_texts

    out = Path(out)
    console = console or Console(stderr=True)
    if side not in ("title", "query"):
        raise UserError(f"--side {side!r}: expected title or query.")
    if batch_size < 1:
        raise UserError(f"--batch-size {batch_size}: expected at least 1.")
    engine = ENGINES.get(format or "")
    if engine is None:
        check_output(out, format)
    elif side != "title":
        raise UserError(f"--format {format} is for titles; an engine is asked with queries.")
    if out.exists() and Path(input).exists() and out.samefile(input):
        raise UserError(f"{out} is the input; choose another name for the vectors.")
    with open_texts(input, side, column, id_column, encoding, title_fields) as texts:
        if engine and not texts.has_ids:
            raise UserError(f"{input} has no ids, which --format {format} needs; see --id-column.")
        if side == "title":
            warn_of_other_fields(model, title_fields, console)
        # After the header is checked: loading a model takes seconds.
        load_tensorflow()
        from dssm_tf.model.prior import with_column
        from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker

        ranker = SemanticRanker.load(model)
        encoder = Encoder(ranker.model, ranker.vocabulary, batch_size)
        dimension = encoder.dimension + (not cosine)
        count, started = 0, monotonic()
        with (
            open_engine_writer(out, format or "", dimension, ranker.prior, ranker.prior.unseen)
            if engine
            else open_writer(out, dimension, texts.has_ids) as writer,
            progress_of("embed", None, console, unit="") as task,
        ):
            for chunk in _chunks(texts.rows, _BATCHES * batch_size):
                lines = [text.text for text in chunk]
                ids = [str(text.id) for text in chunk] if texts.has_ids else None
                vectors = encoder(side, lines)
                if not cosine:
                    last = 1.0 if side == "query" else ranker.weighted_prior(lines)
                    vectors = with_column(vectors, last)
                writer.write(ids, lines, vectors)
                count += len(chunk)
                share = texts.done()
                task.total = None if share is None else 1.0
                speed = count / max(monotonic() - started, 1e-9)
                task.update(share or 0.0, f"{count:,} texts, {speed:,.0f}/s")
            if not count:
                raise UserError(f"{input} holds no text; nothing was written.")
    beside = f" and {ids_path(out).name}" if texts.has_ids and out.suffix == ".npy" else ""
    if engine:
        beside = f"; to load: {engine.load.replace('{}', str(out))}"
    use = "cosine" if cosine else "inner product, which is the model's score"
    console.print(
        f"{count} vectors of length {dimension}, to compare by {use}, written: {out}{beside}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return count


def _chunks(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    rows = iter(texts)
    while chunk := list(islice(rows, size)):
        yield chunk
