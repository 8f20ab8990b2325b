"""`dssm tune`: chooses gamma, the learning rate and other settings on the validation split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.paths import AnyPath, path_list
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import is_quiet


def tune(
    *,
    config: str = "maxsim",
    data: Annotated[tuple[AnyPath, ...], Parameter(consume_multiple=True)],
    out: AnyPath,
    grid: tuple[str, ...],
    random: int | None = None,
    tpe: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    overrides: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    prune: bool = False,
) -> None:
    """Choose settings on the validation split, by a grid, at random or with Optuna's TPE.

    Trains and compares the settings. Writes the best configuration, OUT/best.yaml, and a table of
    all settings, OUT/trials.tsv. Earlier trials in OUT are reused, also with another grid; failed
    ones are retried.

        dssm tune --data DATA --out OUT --grid loss.gamma=5,10,15

    Args:
        config: YAML file, or the name of a configuration in the package, such as lstm.
        data: directory that preprocess wrote; with several, settings are compared by the geometric
            mean of the metric.
        out: directory to write, or that of an earlier search.
        grid: KEY=VALUES: a key and its values: V1,V2,... or, with --random or --tpe, LOW:HIGH or
            log:LOW:HIGH, a range of integers if both bounds are integers; may be repeated.
        random: try this many random settings instead of all.
        tpe: try this many settings, each suggested from the results so far.
        seed: seed of --random and --tpe.
        seeds: number of training runs of each setting per data directory; the table has their
            standard deviation.
        overrides: KEY=VALUE: a setting of every trial, e.g. training.epochs=5; may be repeated.
            training.monitor=ndcg@1 changes the metric that compares trials.
        prune: stop a setting whose first training run is worse than the median of the others.

    Raises:
        UserError: a setting is not allowed, or every trial failed.
    """
    data, out = path_list(data), Path(out)
    try:
        import optuna

        from dssm_tf.tuning.search import Search
    except ModuleNotFoundError as error:
        raise UserError(f"Optuna is not installed; {install_command('tune')}") from error

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = Search(config, grid, random, tpe, seed, seeds, overrides, prune)
    search.check()  # before TensorFlow's slow import
    load_tensorflow()
    from rich.console import Console

    from dssm_tf.tuning.tune import tune as run

    run(search, data, out, console=Console(quiet=is_quiet()))
