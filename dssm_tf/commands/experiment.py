"""`dssm experiment`: the DSE paper's experiments by name."""

from __future__ import annotations

import argparse
from pathlib import Path

from dssm_tf.commands.parser import Commands
from dssm_tf.common.quiet import load_tensorflow


def add(commands: Commands) -> None:
    """Adds `experiment` and its two experiments to a parser's commands."""
    summary = "repeat an experiment of the DSE paper (Wu et al. 2014), with its tables and figures"
    experiment = commands.add_parser(
        "experiment", help=summary, description=summary[0].upper() + summary[1:]
    )
    kinds = experiment.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)

    cora = _kind(
        kinds,
        "cora",
        _run_cora,
        "bundled papers of seven classes: rank loss by share of links and embedding size",
        "Writes table 1, figure 1 (2-D embeddings by class) and table 2 (nearest words).",
        "a corner of table 1, trained in full: 200 words, two shares of links, two sizes",
    )
    cora.add_argument(
        "--per-class", type=int, default=150, help="papers of each class, from 10 to 180"
    )

    wikispeedia = _kind(
        kinds,
        "wikispeedia",
        _run_wikispeedia,
        "linked articles: rank loss by number of words and of training tuples",
        "Writes table 3 and figure 2, for dse, ssi, psi, tfidf and dse+tfidf.",
        "a tenth of the training on fewer words, to see that it works, not how well",
    )
    wikispeedia.add_argument("--docs", required=True, type=Path, help="table with doc_id, text")
    wikispeedia.add_argument("--links", required=True, type=Path, help="table with source, target")


def _kind(
    kinds: Commands,
    name: str,
    run: object,
    summary: str,
    details: str,
    quick: str,
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {details}",
    )
    parser.set_defaults(run=run)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    return parser


def _run_cora(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.dse.experiments.cora import cora

    cora(
        arguments.out,
        per_class=arguments.per_class,
        quick=arguments.quick,
        seed=arguments.seed,
        console=Console(),
    )


def _run_wikispeedia(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.dse.experiments.wikispeedia import wikispeedia

    wikispeedia(
        arguments.docs,
        arguments.links,
        arguments.out,
        quick=arguments.quick,
        seed=arguments.seed,
        console=Console(),
    )
