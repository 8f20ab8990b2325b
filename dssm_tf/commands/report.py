"""`dssm report`: a run as a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from dssm_tf.tables.judgments import CorpusTitle


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
    parser.add_argument(
        "--category",
        metavar="COLUMN",
        help="of --corpus, else of --judgments: what the map of titles is coloured by (default: "
        "the column 'category' where there is one)",
    )
    parser.add_argument(
        "--map",
        choices=("pca", "umap"),
        default="pca",
        help="how titles are laid out; umap needs the extra 'maps'",
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write OUT/tensorboard: titles for its projector, histograms of gates",
    )
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def _run(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.tables.judgments import read_categories, read_corpus, read_judgments

    refuse_existing(arguments.out)
    beside = named_paths(arguments.beside, "--beside")
    judgments = [] if arguments.judgments is None else read_judgments(arguments.judgments)
    corpus = None if arguments.corpus is None else read_corpus(arguments.corpus)
    categories = _categories(arguments, read_categories)
    load_tensorflow()
    from dssm_tf.analysis.report import report

    console = Console()
    words = [word for word in arguments.words.split(",") if word]
    html = report(
        arguments.model, judgments, corpus, beside=beside, words=words, categories=categories,
        layout=arguments.map, console=console,
    )  # fmt: skip
    with atomic_directory(arguments.out) as directory:
        (directory / "report.html").write_text(html, "utf-8")
        if arguments.tensorboard:
            _write_tensorboard(arguments.model, corpus, categories, directory / "tensorboard")
    console.print(f"look: {arguments.out / 'report.html'}", highlight=False, soft_wrap=True)
    if arguments.tensorboard:
        logs = arguments.out / "tensorboard"
        console.print(f"look: tensorboard --logdir {logs}", highlight=False, soft_wrap=True)


def _categories(
    arguments: argparse.Namespace, read: Callable[[Path, str | None], dict[str, str] | None]
) -> dict[str, str] | None:
    """The titles' categories, of the table that says most of titles."""
    table = arguments.corpus or arguments.judgments
    if table is not None:
        return read(table, arguments.category)
    if arguments.category:
        raise UserError(
            f"--category {arguments.category} is a column of --corpus or --judgments; give one."
        )
    return None


def _write_tensorboard(
    run: Path,
    corpus: Sequence[CorpusTitle] | None,
    categories: dict[str, str] | None,
    directory: Path,
) -> None:
    from dssm_tf.analysis.report import surveyed_titles
    from dssm_tf.analysis.tensorboard import write_gates, write_projector
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.towers.recurrent import RecurrentTower

    ranker = SemanticRanker.load(run)
    titles = surveyed_titles(ranker, corpus)
    directory.mkdir()
    write_projector(directory, ranker.encode_titles(titles), titles, categories)
    tower = ranker.model.title_tower
    if isinstance(tower, RecurrentTower):
        write_gates(directory, tower, ranker.vocabulary, titles)
