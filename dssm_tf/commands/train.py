"""`dssm train`: trains a configured model on preprocessed clicks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.training.run_directory import Result

# Arguments that only the Python function has. Their annotations avoid Keras types, because the
# command line evaluates annotations without loading Keras; the docstring has the types.
_PythonOnly = Parameter(parse=False)


def train(
    *,
    data: Path,
    out: Path,
    config: str | None = None,
    judgments: Path | None = None,
    teacher: Path | None = None,
    start: Annotated[Path | None, Parameter(name="--from")] = None,
    overrides: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    tensorboard: Path | None = None,
    tower: Annotated[Callable[[int], Any] | None, _PythonOnly] = None,
    loss: Annotated[Any, _PythonOnly] = None,
    callbacks: Annotated[Sequence[Any], _PythonOnly] = (),
) -> None:
    """Train a model on preprocessed clicks, or on titles alone if there are none.

    Uses all local GPUs, and several machines through TF_CONFIG. Run the same command again to
    resume an interrupted run; a finished run does not change. Training fails if the loss or a
    weight is not a number, if no click has a negative, or if each epoch is worse than the
    untrained model: a lower NDCG@10, significantly or with a higher validation loss. It warns if no
    epoch ranks better.

        dssm train --data DATA --out RUN

    Args:
        data: directory that preprocess wrote.
        out: directory of the run.
        config: YAML file, or the name of a configuration in the package, such as dssm; by default
            maxsim, or the configuration of --from.
        judgments: also learn from this table of query, title, grade; add --set
            training.clicks=false to learn only from it.
        teacher: also learn from this table of query, title, score of another model; see dssm teach.
        start: a finished run to start from: training starts with its weights, and its
            clicks remain in the prior; --data is from `preprocess --vocabulary-from RUN` and
            contains only newer clicks.
        overrides: KEY=VALUE, a setting such as training.epochs=5; may be repeated.
        tensorboard: directory for TensorBoard: losses and validation metrics of each epoch.
        tower: a function from a vocabulary size to a custom tower, which replaces the
            configuration's. Its class extends `dssm_tf.towers.tower.Tower` and is registered
            with `keras.saving.register_keras_serializable`.
        loss: a `dssm_tf.losses.RankingLoss` for clicks, which replaces the configuration's; custom
            classes are registered as for `tower`.
        callbacks: Keras callbacks, such as keras.callbacks.ReduceLROnPlateau; they are called
            during training, and again during the final training on all records.

    Raises:
        UserError: see `load_config` and `dssm_tf.training.train`.
    """
    from dssm_tf.config import DEFAULT_CONFIG, find_config, load_config
    from dssm_tf.model.run_files import CONFIG

    settings = []
    for name, file in (("judgments", judgments), ("teacher", teacher)):
        if file:  # replaces the configuration's file and the hash of its content
            settings += [f"{name}.file={json.dumps(str(file))}", f'{name}.sha256=""']
    if config is None and start is not None:
        path = Path(start) / CONFIG
    else:
        path = find_config(config or DEFAULT_CONFIG)
    resolved = load_config(path, [*settings, *overrides])
    resolved.check_files()
    load_tensorflow()

    from dssm_tf.config.custom_parts import with_custom_parts
    from dssm_tf.evaluation.intervals import interval
    from dssm_tf.training.devices import read_cluster
    from dssm_tf.training.train import train as run_training

    resolved = with_custom_parts(resolved, tower, loss)
    result = run_training(
        resolved, data, out, start=start, callbacks=callbacks, tensorboard=tensorboard
    )
    if read_cluster()[0]:
        return
    duration = f"in {result.seconds:.0f} s" if result.seconds else "(already finished)"
    warm_start_note = "" if start is None else f", started from {start}"
    lines = [f"{out}: {_phases(result)} {duration}{warm_start_note}"]
    if metrics := result.metrics:
        range95 = interval(metrics["low ndcg@10"], metrics["high ndcg@10"])
        lines.append(
            f"validation NDCG@10 {metrics['ndcg@10']:.3f}, 95 % interval {range95} over "
            f"{metrics['queries']:,.0f} queries, with {result.prior_weight:g} x log-prior of "
            f"titles{' (measured before the refit)' if result.refitted else ''}"
        )
    if result.convergence_warning:
        lines.append(
            f"WARNING: the model may have learned nothing: {result.convergence_warning}. Try "
            f"another optimizer.learning_rate (it was {resolved.optimizer.learning_rate:g}), or "
            "train for longer."
        )
    else:
        lines.append(f"next: dssm export --model {shlex.quote(str(out))} --out EXPORT")
    say(*lines)


def _phases(result: Result) -> str:
    """The phases of a training with the numbers of epochs that they ran."""
    if not result.epochs:
        return "trained without clicks"
    phases = f"fit {_epochs(result.epochs)}"
    if result.metrics:
        phases += f" (best: {result.best_epoch})"
    if result.refit_epochs:
        phases += f", refit {_epochs(result.refit_epochs)} on all records"
    return phases


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' * (count != 1)}"
