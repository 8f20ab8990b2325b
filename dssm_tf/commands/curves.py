"""`dssm curves`: how the loss, or another metric, of trained runs went, epoch by epoch."""

from __future__ import annotations

import argparse
from pathlib import Path

from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands


def add(commands: Commands) -> None:
    """Adds the sub-command."""
    parser = commands.add_parser(
        "curves",
        help="plot the loss of trained runs by epoch",
        description="Draws one line a run from its history.json: the cost curves of Palangi et "
        "al. 2016, fig. 7, or any metric the history holds.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="[NAME=]RUN", help="directories `dssm train` wrote"
    )
    parser.add_argument("--metric", default="loss", help="e.g. val_loss or ndcg@10")
    parser.add_argument("--out", type=Path, required=True, help="PNG to write")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    from dssm_tf.analysis.curves import curves

    curves(named_paths(arguments.runs, "RUN"), arguments.metric, arguments.out)
