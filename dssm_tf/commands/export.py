"""`dssm export`: a trained run as a SavedModel, or as a small directory for NumPy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dssm_tf.commands.fields import title_fields_of
from dssm_tf.commands.parser import Commands, add_encoding, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.tables.title_fields import TITLE

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.export.compact import TableName

Format = Literal["saved_model", "compact"]


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        export_command(
            arguments.model,
            arguments.out,
            arguments.name,
            format=arguments.format,
            table=arguments.table,
            dimension=arguments.dimension,
            judgments=arguments.judgments,
            corpus=arguments.corpus,
            encoding=arguments.encoding,
        )

    parser = command(
        commands,
        "export",
        run,
        "write a SavedModel that takes raw strings, or a small directory for NumPy alone",
        "A SavedModel has the signatures encode_query, encode_title, the same with_prior, and "
        "score, and warm-up requests for TensorFlow Serving; a compact model is read by "
        "dssm_tf.runtime. Either is verified against the trained model before it counts.",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--out", required=True, type=Path, help="writes OUT/NAME/VERSION/")
    parser.add_argument("--name", help="the served model's name; the tower's by default")
    parser.add_argument(
        "--format",
        choices=("saved_model", "compact"),
        default="saved_model",
        help="what to write; the options below are of compact",
    )
    parser.add_argument(
        "--table",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="how to store the first matrix, most of a model's bytes",
    )
    parser.add_argument("--dimension", type=int, help="shorten vectors to this many numbers")
    parser.add_argument(
        "--judgments", type=Path, help="measure on these what that costs, for the model card"
    )
    parser.add_argument("--corpus", type=Path, help="rank all of it, not the judged titles alone")
    add_encoding(parser)


def export_command(
    model: Path,
    out: Path,
    name: str | None = None,
    *,
    format: Format = "saved_model",
    table: TableName = "float32",
    dimension: int | None = None,
    judgments: Path | None = None,
    corpus: Path | None = None,
    encoding: str = "utf-8",
    console: Console | None = None,
) -> Path:
    """Exports and says how to use it.

    Args:
        model: directory `dssm train` wrote.
        out: where models lie.
        name: the served model's name.
        format: what to write.
        table: see `export_compact`, as `dimension`.
        dimension: of the vectors.
        judgments: what the model card measures by.
        corpus: what is ranked for them; the judged titles of each query by default.
        encoding: of both.
        console: where to print.

    Returns:
        The directory of the version.

    Raises:
        UserError: an input cannot be used, or an option is not of this format.
    """
    from rich.console import Console

    if format == "saved_model" and (table != "float32" or dimension or judgments or corpus):
        raise UserError(
            "--table, --dimension, --judgments and --corpus are of compact models; "
            "add --format compact."
        )
    if corpus and not judgments:
        raise UserError("--corpus is ranked for --judgments; give both or none.")
    console = console or Console()
    if format == "saved_model":
        load_tensorflow()
        from dssm_tf.export.saved_model import export

        target = export(model, out, name)
        base = target.parent.resolve()
        lines = [
            f"{target}: verified against the trained model",
            f"serve it: tensorflow_model_server --port=8500 --rest_api_port=8501 "
            f"--model_name={base.name} --model_base_path={base}",
        ]
    else:
        from dssm_tf.evaluation.task import RankingTask
        from dssm_tf.tables.judgments import read_corpus, read_judgments

        task = None
        if judgments:
            fields = title_fields_of(model) or (TITLE,)
            titles = read_corpus(corpus, encoding, fields) if corpus else None
            judged = read_judgments(
                judgments, encoding=encoding, title_fields=fields, corpus=titles
            )
            task = RankingTask(judged, titles)
        load_tensorflow()
        from dssm_tf.export.compact import export_compact

        target, difference = export_compact(model, out, name, table, dimension, task)
        size = sum(one.stat().st_size for one in target.iterdir()) / 1e6
        lines = [
            f"{target}: {size:.1f} MB; vectors equal the trained model's to {difference:.0e}"
            + (", rounded and shortened alike" if table != "float32" or dimension else ""),
            f"read it: from dssm_tf.runtime import Ranker; Ranker.load({str(target.parent)!r})",
        ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return target
