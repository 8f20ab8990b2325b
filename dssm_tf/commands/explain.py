"""`dssm explain`: why a title matches a query."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from dssm_tf.analysis.explanation import Explanation


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    parser = command(
        commands,
        "explain",
        _run,
        "show why a title matches a query",
        "What each word and letter trigram of both texts adds to the cosine; of a recurrent model "
        "also its gates, most active cells and keywords (Palangi et al. 2016, sec. V), of a CLSM "
        "the words that win its neurons (Shen et al. 2014, fig. 4).",
    )
    parser.add_argument(
        "--model",
        required=True,
        type=Path,
        help="directory that `dssm train` or `dssm export` wrote, or a baseline was saved in",
    )
    parser.add_argument("--query", required=True, help="the query, as a user would type it")
    parser.add_argument("--title", required=True, help="the title, as it is shown")
    parser.add_argument("--out", type=Path, help="directory for explanation.json and the figures")
    parser.add_argument("--json", action="store_true", help="print JSON, not tables")


def _run(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing

    _check(arguments.model)
    if arguments.out is not None:
        refuse_existing(arguments.out)
    load_tensorflow()
    from dssm_tf.analysis.display import show, write

    found = _explained(arguments.model, arguments.query, arguments.title)
    if arguments.out is not None:
        with atomic_directory(arguments.out) as directory:
            write(found, directory)
    if arguments.json:
        sys.stdout.write(json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        console = Console()
        show(found, console)
        if arguments.out is not None:
            console.print(f"figures and explanation.json: {arguments.out}", highlight=False)


def _check(model: Path) -> None:
    """Refuses what is no directory before TensorFlow is loaded, which takes seconds."""
    if model.is_dir():
        return
    kind = "does not exist" if not model.exists() else "is a file"
    hybrid = " A hybrid's scores depend on all titles it ranks; explain one of its members."
    raise UserError(
        f"--model {model} {kind}; expected a directory that `dssm train` or `dssm export` wrote, "
        f"or that a baseline was saved in.{hybrid if model.suffix == '.json' else ''}"
    )


def _explained(model: Path, query: str, title: str) -> Explanation:
    """A run is looked into; of anything else the answers are known."""
    from dssm_tf.analysis.answers import explain_answers
    from dssm_tf.analysis.explanation import explain
    from dssm_tf.benchmark.finished import load_finished
    from dssm_tf.model.semantic_ranker import SemanticRanker

    name = model.resolve().name
    # The versions of an export are numbers.
    ranker, _ = load_finished(model.resolve().parent.name if name.isdecimal() else name, model)
    if isinstance(ranker, SemanticRanker):
        ranker.name = ranker.config.tower.name
        return explain(ranker, query, title)
    return explain_answers(ranker, query, title)
