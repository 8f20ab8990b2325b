"""`dssm report`: a run as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from dssm_tf.commands.fields import title_fields_of
from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.tables.title_fields import TITLE


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    parser = command(
        commands,
        "report",
        _run,
        "write a page about a run: curves, metrics, explained queries, what it learned",
        "With --judgments it is measured, and its best and worst queries are explained.",
    )
    parser.add_argument("--model", required=True, type=Path, help="directory `dssm train` wrote")
    parser.add_argument("--judgments", type=Path, help="table, as for dssm evaluate")
    parser.add_argument("--corpus", type=Path, help="table with doc_id, title: rank all of it")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="[NAME=]RUN",
        help="another run: its curves, scores and keywords stand beside; may be repeated",
    )
    parser.add_argument(
        "--words", default="", help="comma-separated words to look at; chosen if not given"
    )
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def _run(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.tables.judgments import read_corpus, read_judgments

    refuse_existing(arguments.out)
    beside = named_paths(arguments.beside, "--beside")
    fields = title_fields_of(arguments.model) or (TITLE,)
    corpus = arguments.corpus and read_corpus(arguments.corpus, title_fields=fields)
    judgments = [] if arguments.judgments is None else read_judgments(
        arguments.judgments, title_fields=fields, corpus=corpus
    )  # fmt: skip
    load_tensorflow()
    from dssm_tf.analysis.report import report

    console = Console()
    words = [word for word in arguments.words.split(",") if word]
    html = report(
        arguments.model, judgments, corpus, beside=beside, words=words, console=console
    )  # fmt: skip
    with atomic_directory(arguments.out) as directory:
        (directory / "report.html").write_text(html, "utf-8")
    console.print(f"look: {arguments.out / 'report.html'}", highlight=False, soft_wrap=True)
