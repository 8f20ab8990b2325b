"""Phases of a training: the choice of a start, the fit, the prior's weight, the refit."""

from __future__ import annotations

import math
from dataclasses import replace

from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.config import Config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.prior import TitlePrior
from dssm_tf.training.checks import check_learned
from dssm_tf.training.cross_validation import BuildLoop, choose_epochs_by_folds
from dssm_tf.training.early_stopping import BestWeights, monitored_value
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.prior_weight import tune_prior_weight
from dssm_tf.training.run_directory import Result
from dssm_tf.training.starts import Stage, Starts, best_stage, trains_on_titles
from dssm_tf.training.validation import ValidationTask, score_task
from dssm_tf.training.warm_start import WarmStart

COMPARED_STEPS = 120
"""Steps of training, rounded to whole epochs, after which validation chooses the start."""


def fit_and_refit(
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    starts: Starts | None,
    task: ValidationTask | None,
    warm_start: WarmStart | None,
    refit: bool,
    records: str,
    console: Console,
) -> Result:
    """Fits on the training split, tunes the prior's weight, and perhaps refits on all records.

    Args:
        config: the configuration.
        data: the preprocessed directory.
        loop: the training.
        starts: computes the weights to start from; None for those of `loop`.
        task: the validation queries; None if there are none.
        warm_start: the earlier run that the training starts from.
        refit: whether to refit.
        records: describes the records of the refit, for the terminal.
        console: prints the progress.

    Raises:
        UserError: each epoch is worse than the untrained model, or significantly worse than the
            earlier run of a warm start, see `check_learned`.
    """
    untrained: dict[str, float] = {}
    if task is not None:
        with progress_of("ranking before training", None, not console.quiet, unit=""):
            untrained = task.ndcg(score_task(loop.scorer, task))
    stages: list[Stage] = []
    if starts is not None:
        if trains_on_titles(config, data):
            return _train_on_titles(config, data, loop, starts, task, untrained, console)
        stages = starts.before_clicks()
    best, chosen = _fit_from_best_start(config, loop, task, stages, console)
    rate = config.optimizer.learning_rate
    if warm_start is None:
        check_learned(best.history, untrained, loop.initial_validation_loss, rate)
    elif task and {*warm_start.query_ids.tolist()}.isdisjoint(map(data.rules.id, task.queries)):
        # A trained model hardly improves in a short training, so only a significant loss counts.
        # It may know the clicks of queries that it was trained on, so these prove nothing.
        check_learned(best.history, untrained, lambda: math.inf, rate, str(warm_start.run))
    titles = data.iter_titles() if warm_start is None else warm_start.titles
    with progress_of("choosing the weight of the prior", None, not console.quiet, unit=""):
        prior = TitlePrior(titles, data.rules)
        weight, metrics = tune_prior_weight(config.ranking.prior, prior, task, loop.scorer)
    result = Result(
        len(best.history), best.best_epoch, best.history, weight, metrics, untrained=untrained
    )
    result.stages = [stage.summary(chosen=stage is chosen) for stage in stages]
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
        del best  # its weights are those of the ranking model
        weights = loop.ranking_model.weights
        loop.fit("refit", splits, result.refit_epochs, weights=weights, save_at_end=False)
        result.refitted = True
    return result


def _fit_from_best_start(
    config: Config,
    loop: TrainingLoop,
    task: ValidationTask | None,
    stages: list[Stage],
    console: Console,
) -> tuple[BestWeights, Stage | None]:
    """Fits from the start whose first epochs have the best validation metric.

    Each start is trained for about `COMPARED_STEPS` steps; the best one is trained further. The
    weights of the others are removed from `stages`, so that they take no memory.

    Args:
        config: the configuration.
        loop: the training.
        task: the validation queries; if None, only the last start is fitted.
        stages: the starts; if there are none, the initial weights.
        console: prints the decision.

    Returns:
        The best weights, and the start that they were fitted from, if there are starts.
    """
    epochs = loop.max_epochs
    if len(stages) < 2 or task is None:
        last = stages[-1] if stages else None
        weights = last.weights if last else None
        return loop.fit("fit", ["train"], epochs, task, weights, save_at_end=False), last
    monitor, values = config.training.monitor, {}
    compared_epochs = min(epochs, max(1, round(COMPARED_STEPS / loop.steps)))
    for number, stage in enumerate(stages):
        console.print(f"training from {stage.name}")
        best = loop.fit(
            f"fit_{number}", ["train"], epochs, task, stage.weights, stop_after=compared_epochs
        )
        # A resumed training may have trained the chosen start for more epochs.
        epoch = max(
            best.history[:compared_epochs], key=lambda epoch: monitored_value(epoch, monitor)
        )
        values[stage.name] = monitored_value(epoch, monitor)
        compared = {"epochs": compared_epochs, monitor: epoch[monitor]}
        stages[number] = replace(stage, compared=compared)
        del best
    chosen = _announce_choice(
        console,
        f"validation after {compared_epochs} epoch{'s' if compared_epochs > 1 else ''}",
        monitor,
        values,
    )
    # Continues from the checkpoint of the compared epochs.
    stage = stages[chosen]
    for index, other in enumerate(stages):
        if index != chosen:
            stages[index] = replace(other, weights=[])
    best = loop.fit(f"fit_{chosen}", ["train"], epochs, task, stage.weights, save_at_end=False)
    return best, stage


def _announce_choice(console: Console, method: str, monitor: str, values: dict[str, float]) -> int:
    """Prints which start has the highest value, and returns its index.

    Args:
        console: prints the choice.
        method: how the values were measured, such as `cross-validation`.
        monitor: the monitored metric.
        values: the monitored value by the name of each start.
    """
    chosen = max(values, key=values.__getitem__)
    all_values = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    console.print(f"chosen by {method}: the start {chosen} ({monitor} {all_values})")
    return [*values].index(chosen)


def cross_validate(
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    starts: Starts | None,
    build_fold: BuildLoop,
    records: str,
    console: Console,
) -> Result:
    """Chooses the number of epochs by cross-validation, and the start; then trains on all records.

    Each start is cross-validated with all epochs.

    Args:
        config: the configuration, with `training.folds`.
        data: the preprocessed directory.
        loop: the training on all records.
        starts: computes the weights to start from; None for those of `loop`. All folds have the
            same titles and vocabulary, and so the same starts.
        build_fold: builds the training of a fold.
        records: describes all records, for the terminal.
        console: prints the progress.
    """
    stages: list[Stage | None] = [None] if starts is None else [*starts.before_clicks()]
    results = []
    for stage in stages:
        if stage is not None and len(stages) > 1:
            console.print(f"cross-validation of the start {stage.name}")
        results.append(
            choose_epochs_by_folds(
                config.training,
                config.ranking.prior,
                config.validation.titles,
                data,
                build_fold,
                console,
                None if stage is None else stage.weights,
            )
        )
    chosen, monitor = 0, config.training.monitor
    best_epochs = [result.history[result.best_epoch - 1] for result in results]
    validated_stages = [
        Stage(stage.name, stage.weights, {"ndcg@10": epoch["ndcg@10"]})
        for stage, epoch in zip(stages, best_epochs, strict=True)
        if stage is not None
    ]
    if len(validated_stages) > 1:
        values = {
            stage.name: monitored_value(epoch, monitor)
            for stage, epoch in zip(validated_stages, best_epochs, strict=True)
        }
        chosen = _announce_choice(console, "cross-validation", monitor, values)
    result, start = results[chosen], stages[chosen]
    result.stages = [
        stage.summary(chosen=index == chosen) for index, stage in enumerate(validated_stages)
    ]
    result.refit_epochs = result.best_epoch
    console.print(
        f"refit: from the start on {records}, for as many epochs as the best one, "
        f"{result.best_epoch} of {result.epochs}"
    )
    weights = None if start is None else start.weights
    splits = data.nonempty_splits
    loop.fit("refit", splits, result.refit_epochs, weights=weights, save_at_end=False)
    return result


def _train_on_titles(
    config: Config,
    data: Preprocessed,
    loop: TrainingLoop,
    starts: Starts,
    task: ValidationTask | None,
    untrained: dict[str, float],
    console: Console,
) -> Result:
    """Trains on a catalog alone: start vectors or titles as queries, then spelling.

    Raises:
        UserError: the model is significantly worse than before, see `check_learned`.
    """
    stages = starts.without_clicks()
    chosen = stages[-1]
    if config.start.spelling == "auto":
        chosen = best_stage(stages)
        console.print(f"chosen by validation: the weights after {chosen.name}")
    assign_all(loop.ranking_model.weights, chosen.weights)
    with progress_of("ranking the validation queries", None, not console.quiet, unit=""):
        prior = TitlePrior(data.iter_titles(), data.rules)
        weight, metrics = tune_prior_weight(0.0, prior, task, loop.scorer)
    if not config.start.spelling:  # otherwise the last stage is not trained by this optimizer
        before, rate = stages[0].metrics, config.optimizer.learning_rate
        check_learned([metrics], before, lambda: math.inf, rate, stages[0].name)
    result = Result(0, 0, [], weight, metrics, untrained=untrained)
    result.stages = [stage.summary(chosen=stage is chosen) for stage in stages]
    result.validation_description = "" if task is None else task.description
    return result
