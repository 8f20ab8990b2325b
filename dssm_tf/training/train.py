"""Runs a training from start to finish: check, fit, tune the prior's weight, refit, write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

import keras
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import exclusive_lock
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import is_quiet
from dssm_tf.config import Config
from dssm_tf.config.training import ValidationConfig
from dssm_tf.data.graded_sources import SOURCES, GradedSource, read_sources
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.build import build_loop
from dssm_tf.training.checks import (
    check_batch_sizes,
    check_callbacks,
    check_data,
    check_tensorboard,
)
from dssm_tf.training.devices import Devices
from dssm_tf.training.fitting import cross_validate, fit_and_refit
from dssm_tf.training.loop import LoopOptions, TrainingLoop
from dssm_tf.training.resolve import resolve_config
from dssm_tf.training.run_directory import Result, finish_run, load_finished_result, start_run
from dssm_tf.training.start_vectors import (
    NONE,
    check_start_vectors,
    read_start_vectors,
    with_file_hash,
)
from dssm_tf.training.starts import Starts, trains_on_titles
from dssm_tf.training.validation import (
    ValidationTask,
    title_task,
    validation_notes,
)
from dssm_tf.training.warm_start import WarmStart


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
        quiet: whether to print nothing.
        callbacks: Keras callbacks. Each phase (the fit, then the refit on all records) calls them
            as a separate `fit` would; the trainings of `training.folds` do not call them. Weights
            that a callback sets when a phase ends have no effect: the run keeps the best epoch's.
        tensorboard: directory for TensorBoard, with a folder per phase.

    Raises:
        UserError: data, configuration or `start` are unusable or do not fit together, `out` has
            other content or is being written by another process, a weight is not finite, or each
            epoch is worse than the untrained model, see `check_learned`.
    """
    started, out, devices = monotonic(), Path(out), Devices.choose()
    if start is None:  # otherwise the earlier run's weights are the start
        check_start_vectors(config.start.vectors)
        config = config.model_copy(update={"start": with_file_hash(config.start)})
    # With a million titles, each of these steps takes many seconds.
    show_steps = not quiet and devices.is_chief
    with progress_of("reading the data", None, show_steps, unit=""):
        config, data = resolve_config(config, Preprocessed(Path(directory)))
    check_data(config.negatives, config.training, data, config.lists)
    config.optimizer.check()
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
    console = Console(
        quiet=quiet or is_quiet() or not devices.is_chief, highlight=False, soft_wrap=True
    )
    options = LoopOptions(out, console.quiet, callbacks, board)
    # On several hosts, only the first process writes.
    with exclusive_lock(out) if devices.is_chief else nullcontext():
        finished_result = load_finished_result(config, data, out, warm_start)
        if finished_result is not None:
            return finished_result
        sources = read_sources(config.lists, data)
        with progress_of("building the model", None, show_steps, unit=""):
            loop = build_loop(
                config,
                data,
                devices=devices,
                options=options,
                sources=sources,
                warm_start=warm_start,
            )
        vectors = None
        if warm_start is None and config.start.vectors != NONE:
            with progress_of("reading the start vectors", None, show_steps, unit=""):
                vectors = read_start_vectors(config.start.vectors, data)
        if devices.is_chief:  # only after the model was built and vectors were read without error
            with progress_of("writing the titles", None, show_steps, unit=""):
                start_run(config, data, out, warm_start)
        task = None
        if not config.training.folds:
            with progress_of("preparing the validation", None, show_steps, unit=""):
                task = validation_task(config.validation, data, warm_start, sources)
        starts = None
        if warm_start is None and config.tower.name == "words":
            seed = config.training.seed
            starts = Starts(config.start, vectors, data, loop, task, seed, console)
        _announce(console, config, data, loop, starts, warm_start, sources, task)
        counts = [f"{source.pairs:,} of {source.name}" for source in sources]
        if data.nonempty_splits:
            counts.insert(0, f"{data.count(*data.nonempty_splits):,} records")
        records = f"all {' and '.join(counts)}"
        if config.training.folds:

            def build_fold(fold: Preprocessed, *, directory: Path, patience: int) -> TrainingLoop:
                training = config.training.model_copy(update={"patience": patience})
                return build_loop(
                    config.model_copy(update={"training": training}),
                    fold,
                    devices=devices,
                    options=LoopOptions(directory, console.quiet),
                )

            result = cross_validate(config, data, loop, starts, build_fold, records, console)
        else:
            # Queries made from titles are not records to train on.
            refit = config.training.refit and (
                data.count("validation") > 0 or any(source.validation for source in sources)
            )
            result = fit_and_refit(
                config, data, loop, starts, task, warm_start, refit, records, console
            )
        result.start = None if start is None else str(start)
        result.set_sources(sources)
        result.seconds = monotonic() - started
        if devices.is_chief:
            with progress_of("writing the run", None, show_steps, unit=""):
                finish_run(loop.ranking_model, config, result, data, out, warm_start)
    return result


def validation_task(
    limits: ValidationConfig,
    data: Preprocessed,
    warm_start: WarmStart | None,
    sources: Sequence[GradedSource] = (),
) -> ValidationTask | None:
    """The validation task: judged queries if there are some, otherwise queries of the log.

    If the data have no clicks, queries made from titles replace those of the log, see `title_task`.

    With a warm start, queries that the earlier run was trained on are left out, unless no others
    remain. The earlier run may have been trained on its validation queries too (`training.refit`),
    and frequent queries are likely to be in both logs.

    Args:
        limits: largest numbers of queries and titles.
        data: the preprocessed directory.
        warm_start: the earlier run that the training starts from.
        sources: graded lists to train on besides clicks.

    Returns:
        None without validation queries.
    """
    earlier_ids: frozenset[int] = frozenset()
    if warm_start is not None:
        earlier_ids = frozenset(warm_start.query_ids.tolist())
    judged = [
        graded for source in sources if source.name == "judgments" for graded in source.validation
    ]
    new = [graded for graded in judged if data.rules.id(graded.query) not in earlier_ids]
    task = ValidationTask.from_lists(new or judged, data.rules, limits.queries)
    if task is not None:
        return task
    if not data.nonempty_splits:
        return title_task(data, limits.queries, limits.titles)
    if not data.count("validation"):
        return None
    new_task = ValidationTask.from_clicks(data, limits.queries, limits.titles, earlier_ids)
    if new_task.queries:
        return new_task
    return ValidationTask.from_clicks(data, limits.queries, limits.titles)


def _announce(
    console: Console,
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    starts: Starts | None,
    warm_start: WarmStart | None,
    sources: Sequence[GradedSource],
    task: ValidationTask | None,
) -> None:
    """Prints the size or the stages of the training, and warnings about the data."""
    size = f"{data.spec.count('titles'):,} titles"
    if data.nonempty_splits:
        pairs = f"{data.count('train'):,} pairs"
        size = f"{pairs} (the data has {len(data.clicked):,} queries and {size})"
    if starts is not None and trains_on_titles(config, data):
        extent = "; ".join(starts.names_without_clicks())
    else:
        epochs, steps = (
            f"{count:,} {unit}{'' if count == 1 else 's'}"
            for count, unit in ((loop.max_epochs, "epoch"), (loop.steps, "step"))
        )
        extent = f"at most {epochs} of {steps}"
    console.print(f"training {config.model_name} on {size}: {extent}")
    lines = [line for source in sources for line in source.summary_lines()]
    if data.rules.own_fields > 1 and warm_start is None and trains_on_titles(config, data):
        lines.append(
            "Without clicks, no query finds the words of further fields of a title, because they "
            "have rows of their own. Preprocess with --field-rows shared."
        )
    lines += validation_notes(task, data)
    for line in lines:
        style = "" if line.startswith(SOURCES) else "yellow"
        console.print(line, style=style, markup=False)
