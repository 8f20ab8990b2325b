"""`dssm train`: trains a configured model on preprocessed clicks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        train_command(arguments.config, arguments.data, arguments.out, arguments.set)

    parser = command(
        commands,
        "train",
        run,
        "train a model on preprocessed clicks",
        "Uses all local GPUs, and several machines through TF_CONFIG. A run that was interrupted "
        "goes on when the same command is given again.",
    )
    parser.add_argument(
        "--config",
        required=True,
        help="YAML file, or the name of one that comes with the package, such as lstm or dssm",
    )
    parser.add_argument("--data", required=True, type=Path, help="directory preprocess wrote")
    parser.add_argument("--out", required=True, type=Path, help="directory of the run, new")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, e.g. training.epochs=5; may be repeated",
    )


def train_command(
    config: str,
    data: Path,
    out: Path,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Trains and says what came of it.

    Args:
        config: a YAML file, or the name of a shipped one.
        data: directory preprocess wrote.
        out: the run's directory.
        overrides: `key=value` settings.
        console: where to print.

    Raises:
        UserError: see `load_config` and `dssm_tf.training.train`.
    """
    from rich.console import Console

    from dssm_tf.config import find_config, load_config

    settings = load_config(find_config(config), overrides)  # before TensorFlow's slow import
    load_tensorflow()

    from dssm_tf.training.devices import Workers
    from dssm_tf.training.train import train

    result = train(settings, data, out)
    if not Workers.from_environment().chief:
        return
    console = console or Console()
    values = "/".join(f"{result.ndcg[f'ndcg@{k}']:.3f}" for k in (1, 3, 10)) if result.ndcg else ""
    took = f"in {result.seconds:.0f} s" if result.seconds else "trained before"
    lines = [f"{out}: {result.epochs} epochs {took}, best {result.best_epoch}"]
    if values:
        lines.append(
            f"validation NDCG@1/3/10 {values} with {result.prior_weight:g} x log-prior of titles"
        )
    lines.append(f"next: dssm export --model {out} --out EXPORT")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
