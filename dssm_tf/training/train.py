"""Runs a training from start to finish: check, fit, tune the prior's weight, refit, write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

import keras
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import exclusive_lock
from dssm_tf.config import Config
from dssm_tf.config.training import ValidationConfig
from dssm_tf.data.graded_sources import SOURCES, GradedSource, read_sources
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.prior import TitlePrior
from dssm_tf.training.build import build_loop
from dssm_tf.training.checks import (
    check_batch_sizes,
    check_callbacks,
    check_data,
    check_learned,
    check_tensorboard,
)
from dssm_tf.training.cross_validation import choose_epochs_by_folds
from dssm_tf.training.devices import Devices
from dssm_tf.training.early_stopping import BestWeights, monitored_value
from dssm_tf.training.loop import LoopOptions, TrainingLoop
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.prior_weight import tune_prior_weight
from dssm_tf.training.resolve import resolve_config
from dssm_tf.training.run_directory import Result, finish_run, load_finished_result, start_run
from dssm_tf.training.start_vectors import check_start_vectors
from dssm_tf.training.starts import Stage, Starts, best_stage
from dssm_tf.training.validation import (
    ValidationTask,
    score_task,
    title_task,
    validation_notes,
)
from dssm_tf.training.warm_start import WarmStart

COMPARED_STEPS = 120
"""Steps of training, rounded to whole epochs, after which validation chooses the start."""


def train(
    config: Config,
    directory: Path | str,
    out: Path | str,
    *,
    start: Path | str | None = None,
    quiet: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    tensorboard: Path | str | None = None,
) -> Result:
    """Trains a model and writes the run's directory.

    An interrupted run resumes when `train` is called again with the same arguments. Its result is
    that of an uninterrupted run, to the bit on the same machine and devices. (The state of
    `callbacks` is not saved.) A finished run does not change.

    Args:
        config: the model and its training.
        directory: the preprocessed directory.
        out: the run's directory: configuration, vocabulary, weights, history, versions, model card.
        start: an earlier run for a warm start; see `WarmStart`.
        quiet: prints nothing.
        callbacks: Keras callbacks. Each phase, the fit and the refit on all records, calls them as
            a `fit` of its own; the trainings of `training.folds` do not. Weights that a callback
            sets when a phase ends have no effect: the run keeps the best epoch's.
        tensorboard: directory for TensorBoard, with a folder per phase.

    Raises:
        UserError: data, configuration or `start` are unusable or do not fit together, `out` has
            other content or is being written by another process, a weight is not finite, or each
            epoch ranks the validation queries significantly worse than the untrained model.
    """
    started, out, devices = monotonic(), Path(out), Devices.choose()
    config, data = resolve_config(config, Preprocessed(Path(directory)))
    check_data(config.negatives, config.training, data, config.lists)
    config.optimizer.check()
    check_start_vectors(config.start.vectors)
    check_batch_sizes(config.training, config.lists, devices.replicas)
    warm_start = None
    if start is not None:
        warm_start = WarmStart.load(start, config, data)
    if config.training.folds and (warm_start or config.lists):
        raise UserError(
            "training.folds is for training from scratch on a log; leave it out with --from, "
            "--judgments and --teacher."
        )
    board = None if tensorboard is None else Path(tensorboard)
    check_tensorboard(board)
    check_callbacks(callbacks, config.optimizer.schedule)
    console = Console(quiet=quiet or not devices.chief, highlight=False, soft_wrap=True)
    options = LoopOptions(out, console.quiet, callbacks, board)
    # On several hosts, only the first process writes.
    with exclusive_lock(out) if devices.chief else nullcontext():
        finished = load_finished_result(config, data, out, warm_start)
        if finished is not None:
            return finished
        sources = read_sources(config.lists, data)
        loop = build_loop(
            config,
            data,
            devices=devices,
            options=options,
            sources=sources,
            first_weights=None if warm_start is None else warm_start.weights,
        )
        if devices.chief:
            start_run(config, data, out, warm_start)  # only after the model was built without error
        task = None
        if not config.training.folds:
            task = validation_task(config.validation, data, warm_start, sources)
        _announce(console, config, data, loop, sources, task)
        counts = [f"{source.pairs:,} of {source.name}" for source in sources]
        if data.nonempty_splits:
            counts.insert(0, f"{data.count(*data.nonempty_splits):,} records")
        records = f"all {' and '.join(counts)}"
        if config.training.folds:
            result = _fit_by_folds(config, data, devices, loop, records, console)
        else:
            # Queries made from titles are not records to train on.
            refit = config.training.refit and (
                data.count("validation") > 0 or any(source.validation for source in sources)
            )
            result = _fit_and_refit(config, data, loop, task, warm_start, refit, records, console)
        result.start = None if start is None else str(start)
        result.set_sources(sources)
        result.seconds = monotonic() - started
        if devices.chief:
            finish_run(loop.ranking_model, config, result, data, out, warm_start)
    return result


def validation_task(
    limits: ValidationConfig,
    data: Preprocessed,
    warm_start: WarmStart | None,
    sources: Sequence[GradedSource] = (),
) -> ValidationTask | None:
    """The validation task: of the judged queries, else of those of the log; None without queries.

    Data without any click have the queries of `title_task` in place of those of the log.

    With a warm start, queries that the earlier run was trained on are left out, unless no others
    remain. The earlier run may have been trained on its validation queries too (`training.refit`),
    and frequent queries are likely to be in both logs.

    Args:
        limits: largest numbers of queries and titles.
        data: the preprocessed directory.
        warm_start: the earlier run that the training starts from.
        sources: graded lists to train on besides clicks.
    """
    known: frozenset[int] = frozenset()
    if warm_start is not None:
        known = frozenset(warm_start.query_ids.tolist())
    judged = [
        graded for source in sources if source.name == "judgments" for graded in source.validation
    ]
    new = [graded for graded in judged if data.rules.id(graded.query) not in known]
    task = ValidationTask.from_lists(new or judged, data.rules, limits.queries)
    if task is not None:
        return task
    if not data.nonempty_splits:
        return title_task(data, limits.queries, limits.titles)
    if not data.count("validation"):
        return None
    task_of_new_queries = ValidationTask.from_clicks(data, limits.queries, limits.titles, known)
    if task_of_new_queries.queries:
        return task_of_new_queries
    return ValidationTask.from_clicks(data, limits.queries, limits.titles)


def _announce(
    console: Console,
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    sources: Sequence[GradedSource],
    task: ValidationTask | None,
) -> None:
    """Prints the size of the training, and warnings about the data."""
    pairs = f"{data.count('train'):,} pairs of {len(data.clicked):,} queries and "
    console.print(
        f"training {config.model_name} on {pairs if data.nonempty_splits else ''}"
        f"{len(data.titles):,} titles: at most {loop.max_epochs} epochs of "
        f"{loop.steps:,} steps"
    )
    lines = [line for source in sources for line in source.summary_lines()]
    lines += validation_notes(task, data)
    for line in lines:
        style = "" if line.startswith(SOURCES) else "yellow"
        console.print(line, style=style, markup=False)


def _fit_by_folds(
    config: Config,
    data: Preprocessed,
    devices: Devices,
    loop: TrainingLoop,
    records: str,
    console: Console,
) -> Result:
    """Chooses the number of epochs by cross-validation, and fits on all records for that number.

    Args:
        config: the configuration, with `training.folds`.
        data: the preprocessed directory.
        devices: the devices to train on.
        loop: the training on all records.
        records: number of records, for messages.
        console: prints the decision.
    """

    def build_fold(fold: Preprocessed, *, directory: Path, patience: int) -> TrainingLoop:
        training = config.training.model_copy(update={"patience": patience})
        return build_loop(
            config.model_copy(update={"training": training}),
            fold,
            devices=devices,
            options=LoopOptions(directory, console.quiet),
        )

    result = choose_epochs_by_folds(
        config.training, config.ranking.prior, config.validation.titles, data, build_fold, console
    )
    result.refit_epochs = result.best_epoch
    console.print(
        f"refit: from the start on {records}, for as many epochs as the best one, "
        f"{result.best_epoch} of {result.epochs}"
    )
    loop.fit("refit", data.nonempty_splits, result.refit_epochs)
    return result


def _fit_and_refit(
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    task: ValidationTask | None,
    warm_start: WarmStart | None,
    refit: bool,
    records: str,
    console: Console,
) -> Result:
    """Fits on the training split, tunes the prior's weight, and refits on all records if asked."""
    untrained = {} if task is None else task.ndcg(score_task(loop.scorer, task))
    stages: list[Stage] = []
    if warm_start is None and config.tower.name == "words":
        starts = Starts(config.start, data, loop, task, config.training.seed, console)
        if config.training.clicks and not data.count(*data.nonempty_splits):
            return _train_on_titles(config, data, loop, starts, task, untrained, console)
        stages = starts.before_clicks()
    best = _fit_from_best_start(config, loop, task, stages, console)
    if warm_start is None:
        check_learned(best.history, untrained, config.optimizer.learning_rate)
    prior = TitlePrior(data.titles if warm_start is None else warm_start.titles, data.rules)
    hybrid = not config.score.reads_words
    weight, metrics = tune_prior_weight(config.ranking.prior, prior, task, loop.scorer, hybrid)
    result = Result(
        len(best.history), best.best_epoch, best.history, weight, metrics, untrained=untrained
    )
    result.stages = [stage.summary() for stage in stages]
    if task is None:
        return result
    result.validation_description = task.description
    if refit:
        # The fraction two thirds was chosen in docs/results.md.
        result.refit_epochs = math.ceil(best.best_epoch * 2 / 3)
        console.print(
            f"refit: from the weights of epoch {best.best_epoch} on {records}, without validation"
        )
        # Graded lists may have a validation split even if the log has none.
        splits = ["train", "validation"]
        loop.fit("refit", splits, result.refit_epochs, weights=best.weights)
        result.refitted = True
    return result


def _fit_from_best_start(
    config: Config,
    loop: TrainingLoop,
    task: ValidationTask | None,
    stages: Sequence[Stage],
    console: Console,
) -> BestWeights:
    """Fits from the start whose first epochs have the best validation metric.

    Each start is trained for about `COMPARED_STEPS` steps; the best one is trained further.

    Args:
        config: the configuration.
        loop: the training.
        task: the validation queries; if None, only the last start is fitted.
        stages: the starts; if there are none, the initial weights.
        console: prints the decision.
    """
    epochs = loop.max_epochs
    if len(stages) < 2 or task is None:
        return loop.fit("fit", ["train"], epochs, task, stages[-1].weights if stages else None)
    monitor, values = config.training.monitor, {}
    compared_epochs = min(epochs, max(1, round(COMPARED_STEPS / loop.steps)))
    for number, stage in enumerate(stages):
        console.print(f"training from {stage.name}")
        best = loop.fit(
            f"fit_{number}", ["train"], epochs, task, stage.weights, stop_after=compared_epochs
        )
        values[stage.name] = monitored_value(best.history[best.best_epoch - 1], monitor)
    chosen = max(values, key=values.__getitem__)
    console.print(
        f"chosen by validation after {compared_epochs} epoch{'s' * (compared_epochs > 1)}: the "
        f"start {chosen} ({monitor} "
        + ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        + ")"
    )
    number = [*values].index(chosen)
    # Continues from the checkpoint of the compared epochs.
    return loop.fit(f"fit_{number}", ["train"], epochs, task, stages[number].weights)


def _train_on_titles(
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    starts: Starts,
    task: ValidationTask | None,
    untrained: dict[str, float],
    console: Console,
) -> Result:
    """Trains on a catalog alone: start vectors or titles as queries, then spelling."""
    stages = starts.without_clicks()
    chosen = stages[-1]
    if config.start.spelling == "auto":
        chosen = best_stage(stages)
        console.print(f"chosen by validation: the weights after {chosen.name}")
    assign_all(loop.ranking_model.weights, chosen.weights)
    prior = TitlePrior(data.titles, data.rules)
    weight, metrics = tune_prior_weight(0.0, prior, task, loop.scorer, hybrid=False)
    result = Result(0, 0, [], weight, metrics, untrained=untrained)
    result.stages = [stage.summary() for stage in stages]
    result.validation_description = "" if task is None else task.description
    return result
