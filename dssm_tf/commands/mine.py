"""`dssm mine`: hard negatives for a training, from rankings of trained models and BM25."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands, command

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        mine_command(
            arguments.data,
            arguments.out,
            arguments.model,
            arguments.bm25,
            tuple(arguments.ranks),
            arguments.margin,
        )

    parser = command(
        commands,
        "mine",
        run,
        "find hard negatives: titles that rank high for a query and were never clicked for it",
        "Ranks all titles of the data for each of its queries. A training draws some of a query's "
        "in each epoch, beside its other negatives: dssm train ... --set negatives.mined=4 --set "
        "negatives.mined_from=FILE. With negatives.mine_every the model that is being trained "
        "mines by itself.",
    )
    parser.add_argument("--data", required=True, type=Path, help="directory preprocess wrote")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]RUN",
        help="directory `dssm train` wrote, which ranks by its cosine; may be repeated",
    )
    parser.add_argument("--bm25", action="store_true", help="mine by BM25, alone or beside models")
    parser.add_argument(
        "--ranks",
        type=int,
        nargs=2,
        default=(1, 30),
        metavar=("FIRST", "LAST"),
        help="which ranks to take, among the titles that could be negatives",
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="leave out titles whose score is within this share of the best clicked title's, or "
        "above it: they may be good, though nobody clicked them",
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="table to write: query, title, system, rank, score"
    )


def mine_command(
    data: Path,
    out: Path,
    models: Sequence[str] = (),
    bm25: bool = False,
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
    console: Console | None = None,
) -> None:
    """Mines and says how to train with what was found.

    Args:
        data: directory preprocess wrote.
        out: table to write, new.
        models: directories of trained models, `RUN` or `NAME=RUN`.
        bm25: whether BM25 mines, too.
        ranks: first and last.
        margin: see `dssm_tf.training.mine.mine`.
        console: where to print.

    Raises:
        UserError: an input cannot be used, `out` exists, or no title is left.
    """
    from rich.console import Console

    from dssm_tf.training.mine import mine

    named = named_paths(models, "--model")
    rows = mine(data, out, named, bm25=bm25, ranks=ranks, margin=margin, progress=True)

    from dssm_tf.data.preprocessed import Preprocessed  # TensorFlow is loaded by now

    titles = len({row.title for row in rows})
    every = len(Preprocessed(data).clicked)
    lines = [f"{out}: {len(rows):,} hard negatives, {titles:,} distinct titles"]
    for system in dict.fromkeys(row.system for row in rows):
        queries = len({row.query for row in rows if row.system == system})
        none = "" if queries == every else "; the others have no such title within the ranks"
        lines.append(f"{system}: of {queries:,} of {every:,} queries{none}")
    for line in (
        *lines,
        f"next: dssm train --config dssm --data {data} --set negatives.mined=4 "
        f"--set negatives.mined_from={out} --out RUN",
    ):
        (console or Console()).print(line, highlight=False, markup=False, soft_wrap=True)
