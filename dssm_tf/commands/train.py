"""`dssm train`: trains a configured model on preprocessed clicks."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dssm_tf.common.paths import AnyPath
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.training.run_directory import Result


def train(
    *,
    data: AnyPath,
    out: AnyPath,
    config: str | None = None,
    judgments: AnyPath | None = None,
    teacher: AnyPath | None = None,
    start: Annotated[AnyPath | None, Parameter(name="--from")] = None,
    overrides: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    tensorboard: AnyPath | None = None,
) -> None:
    """Train a model on preprocessed clicks, or on titles alone if there are none.

    Uses all local GPUs, and several machines through TF_CONFIG. Run the same command again to
    resume an interrupted run; a finished run does not change. Training fails if the loss or a
    weight is not a number, if no query has a title that was not clicked (a negative), or if every
    epoch is worse than the untrained model. An epoch is worse if its validation NDCG@10 is
    significantly below the untrained model's, or is below it while its validation loss is above.
    With --from, training fails if every epoch is significantly worse than the earlier run. If no
    epoch ranks better than the starting model, a warning says so.

        dssm train --data DATA --out RUN

    Args:
        data: directory that preprocess wrote.
        out: directory of the run.
        config: YAML file, or the name of a configuration in the package, such as dssm; by default
            maxsim, or the configuration of --from.
        judgments: also learn from this table of query, title, grade; add --set
            training.clicks=false to learn only from it.
        teacher: also learn from this table of query, title, score of another model; see dssm teach.
        start: a finished run to continue: training starts with its weights, and its clicks still
            count in the prior; --data is the output of `preprocess --vocabulary-from RUN` and
            contains only newer clicks.
        overrides: KEY=VALUE, a setting such as training.epochs=5; may be repeated.
        tensorboard: directory for TensorBoard: losses and validation metrics of each epoch.

    Raises:
        UserError: see `resolve_settings` and `train_run` of `dssm_tf.api.training`.
    """
    data, out = Path(data), Path(out)
    from dssm_tf.api.training import resolve_settings, train_run
    from dssm_tf.common.memory import prefer_less_memory
    from dssm_tf.common.quiet import load_tensorflow
    from dssm_tf.evaluation.intervals import interval

    resolved = resolve_settings(
        config, overrides, start, {"judgments": judgments, "teacher": teacher}
    )
    # A model with one vector per text has large matrices; those of maxsim are smaller.
    reads_words = resolved.score.reads_words
    prefer_less_memory(return_tensors=not reads_words, one_thread=reads_words)
    load_tensorflow(with_plots=False)
    result = train_run(resolved, data, out, start=start, tensorboard=tensorboard)
    if result is None:  # another worker of TF_CONFIG writes the run and reports it
        return
    duration = f"in {result.seconds:.0f} s" if result.seconds else "(already finished)"
    warm_start_note = "" if start is None else f", started from {start}"
    lines = [f"{out}: {_phases(result)} {duration}{warm_start_note}"]
    if metrics := result.metrics:
        ci95 = interval(metrics["low ndcg@10"], metrics["high ndcg@10"])
        lines.append(
            f"validation NDCG@10 {metrics['ndcg@10']:.3f}, 95 % interval {ci95} over "
            f"{metrics['queries']:,.0f} queries, with {result.prior_weight:g} x log-prior of "
            f"titles{' (measured before the refit)' if result.refitted else ''}"
        )
    say(*lines)
    if result.convergence_warning:
        say(
            f"WARNING: the model may have learned nothing: {result.convergence_warning}. Try "
            f"another optimizer.learning_rate (it was {resolved.optimizer.learning_rate:g}), or "
            "train for longer.",
            level=logging.WARNING,
        )
    else:
        say(f"next: dssm export --model {shlex.quote(str(out))} --out EXPORT")


def _phases(result: Result) -> str:
    """The phases of a training with the numbers of epochs that they ran."""
    if not result.epochs:
        return "trained without clicks"
    phases = f"fit {_epochs(result.epochs)}"
    if result.metrics:
        phases += f" (best: {result.best_epoch})"
    if result.refit_epochs:
        phases += (
            f", refit {_epochs(result.refit_epochs)} on all clicks including the validation split"
        )
    return phases


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' * (count != 1)}"
