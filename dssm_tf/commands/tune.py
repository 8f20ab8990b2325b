"""`dssm tune`: chooses gamma, the step size and other free parameters on the validation part."""

from __future__ import annotations

import argparse
from pathlib import Path

from dssm_tf.commands.parser import Commands
from dssm_tf.common.quiet import load_tensorflow

_DETAILS = """Trains each setting of a grid, or N random draws, compares them on the validation part
and writes the chosen configuration, OUT/best.yaml, with OUT/trials.json and OUT/trials.tsv beside.

  dssm tune --config lstm --data DATA --out OUT --grid loss.gamma=5,10,15 \\
            --grid optimizer.learning_rate=0.001,0.003
  dssm tune --config lstm --data DATA --out OUT --random 20 --seed 1 --grid loss.gamma=5:20 \\
            --grid optimizer.learning_rate=log:0.0003:0.01 --grid tower.cells=32,64,96

Given again after it was interrupted, it goes on. With another grid in the same OUT, trials that
were done before count again. A trial that fails is reported and does not stop the others.
"""


def add(commands: Commands) -> None:
    """Adds `dssm tune` to the parser."""
    parser = commands.add_parser(
        "tune",
        help="choose settings on the validation part: grid or random search",
        description=_DETAILS,
    )
    parser.set_defaults(
        run=_run, interrupted="the same command goes on, after the trial's last finished epoch"
    )
    parser.add_argument(
        "--config",
        required=True,
        help="YAML file, or the name of one that comes with the package, such as lstm or dssm",
    )
    parser.add_argument(
        "--data",
        required=True,
        nargs="+",
        type=Path,
        help="directory preprocess wrote; of several, the mean decides of the metric as a share "
        "of the best one on each",
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="directory to write, or of an earlier tuning"
    )
    parser.add_argument(
        "--grid",
        action="append",
        required=True,
        metavar="KEY=VALUES",
        help="a setting and what to try: V1,V2,... or, with --random, LOW:HIGH or log:LOW:HIGH, "
        "whole numbers if both ends are; may be repeated",
    )
    parser.add_argument("--random", type=int, metavar="N", help="draw N settings instead of all")
    parser.add_argument("--seed", type=int, help="of the random draws (default: 0)")
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="trainings of each setting on each log; says which settings differ by no more than "
        "seeds do",
    )
    parser.add_argument(
        "--metric",
        choices=("ndcg@1", "ndcg@3", "ndcg@10", "loss"),
        help="of the validation part, chooses the trial and the epoch it keeps (default: "
        "training.monitor of the configuration)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of every trial, e.g. training.epochs=5; may be repeated",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="try trials that failed before again"
    )


def _run(arguments: argparse.Namespace) -> None:
    from dssm_tf.tuning.plan import Request, make_plan

    plan = make_plan(  # before TensorFlow's slow import
        Request(
            arguments.config,
            tuple(arguments.grid),
            random=arguments.random,
            seed=arguments.seed,
            metric=arguments.metric,
            overrides=tuple(arguments.set),
            seeds=arguments.seeds,
        )
    )

    load_tensorflow()
    from rich.console import Console

    from dssm_tf.tuning.tune import tune

    tune(
        plan,
        arguments.data,
        arguments.out,
        retry_failed=arguments.retry_failed,
        console=Console(),
    )
