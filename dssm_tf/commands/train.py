"""`dssm train`: trains a configured model on preprocessed clicks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        files = {name: getattr(arguments, name) for name in ("judgments", "teacher")}
        given = [  # in place of that of the configuration, to which a run is tied
            setting
            for name, file in files.items()
            if file
            for setting in (f"{name}.file={json.dumps(str(file))}", f'{name}.sha256=""')
        ]
        settings = [*given, *arguments.set]
        train_command(
            arguments.config, arguments.data, arguments.out, settings, start=arguments.start
        )

    parser = command(
        commands,
        "train",
        run,
        "train a model on preprocessed clicks",
        "Uses all local GPUs, and several machines through TF_CONFIG. A run that was interrupted "
        "goes on when the same command is given again; one that is finished is left as it is. It "
        "stops where loss or weights are no numbers, no click has a rival, or the model stands "
        "still, and warns where no epoch ranks better than the untrained model.",
        interrupted="the same command goes on after the last finished epoch",
    )
    parser.add_argument(
        "--config",
        help="YAML file, or the name of one that comes with the package, such as lstm or dssm; "
        "that of --from if not given",
    )
    parser.add_argument("--data", required=True, type=Path, help="directory preprocess wrote")
    parser.add_argument("--out", required=True, type=Path, help="directory of the run, new")
    parser.add_argument(
        "--judgments",
        type=Path,
        metavar="FILE",
        help="table with query, title, grade to learn from as well; instead of clicks with "
        "--set training.clicks=false",
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        metavar="FILE",
        help="table with query, title, score of another model to learn from, likewise; see "
        "dssm teach",
    )
    parser.add_argument(
        "--from",
        dest="start",
        type=Path,
        metavar="RUN",
        help="a finished run to go on from: its weights are the first ones, and its clicks of "
        "titles stay in the prior; --data is of `preprocess --vocabulary-from RUN` and holds the "
        "clicks since",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, e.g. training.epochs=5; may be repeated",
    )


def train_command(
    config: str | None,
    data: Path,
    out: Path,
    overrides: Sequence[str] = (),
    console: Console | None = None,
    start: Path | None = None,
) -> None:
    """Trains and says what came of it.

    Args:
        config: a YAML file, or the name of a shipped one; None takes that of `start`.
        data: directory preprocess wrote.
        out: the run's directory.
        overrides: `key=value` settings.
        console: where to print.
        start: a finished run to go on from.

    Raises:
        UserError: see `load_config` and `dssm_tf.training.train`.
    """
    from rich.console import Console

    from dssm_tf.config import find_config, load_config

    # Before TensorFlow's slow import.
    settings = load_config(_config_of(start) if config is None else find_config(config), overrides)
    settings.check_files()
    load_tensorflow()

    from dssm_tf.training.devices import Workers
    from dssm_tf.training.train import train
    from dssm_tf.training.validation import with_intervals

    result = train(settings, data, out, start=start)
    if not Workers.from_environment().chief:
        return
    console = console or Console()
    took = f"in {result.seconds:.0f} s" if result.seconds else "before, nothing left to do"
    began = "" if start is None else f", on from {start}"
    lines = [f"{out}: {result.epochs} epochs {took}, best {result.best_epoch}{began}"]
    if result.ndcg:
        lines.append(
            f"validation {with_intervals(result.ndcg)} with {result.prior_weight:g} x log-prior of "
            f"titles, 95 % intervals over {result.ndcg['queries']:,.0f} queries"
        )
    if result.doubt:
        lines.append(
            f"WARNING: it may have learned nothing: {result.doubt}. Try another "
            f"optimizer.learning_rate (it was {settings.optimizer.learning_rate:g}), or train "
            "for longer."
        )
    else:
        lines.append(f"next: dssm export --model {out} --out EXPORT")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _config_of(run: Path | None) -> Path:
    """The configuration of the run that another goes on from."""
    from dssm_tf.model.run_files import CONFIG

    if run is None:
        raise UserError("give --config, such as dssm, or --from RUN, whose own it then is.")
    if not (run / CONFIG).exists():
        raise UserError(f"--from {run} holds no {CONFIG}; give a directory of `dssm train`.")
    return run / CONFIG
