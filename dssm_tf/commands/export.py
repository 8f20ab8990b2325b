"""`dssm export`: a trained run as a SavedModel."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        export_command(arguments.model, arguments.out, arguments.name)

    parser = command(
        commands,
        "export",
        run,
        "write a SavedModel that takes raw strings",
        "Signatures encode_query, encode_title and score; verified against the trained model "
        "before it counts; with warm-up requests for TensorFlow Serving.",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--out", required=True, type=Path, help="writes OUT/NAME/VERSION/")
    parser.add_argument("--name", help="the served model's name; the tower's by default")


def export_command(
    model: Path, out: Path, name: str | None = None, console: Console | None = None
) -> Path:
    """Exports and says how to serve it.

    Args:
        model: directory `dssm train` wrote.
        out: where models lie.
        name: the served model's name.
        console: where to print.
    """
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.export.saved_model import export

    target = export(model, out, name)
    console = console or Console()
    base = target.parent.resolve()
    for line in (
        f"{target}: verified against the trained model",
        f"serve it: tensorflow_model_server --port=8500 --rest_api_port=8501 "
        f"--model_name={base.name} --model_base_path={base}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return target
