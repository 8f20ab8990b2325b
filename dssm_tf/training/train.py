"""Trains a configured model on preprocessed clicks, with `keras fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.records import explain_damage, verify_records
from dssm_tf.data.schema import FeatureSpec, load_titles, load_vocabulary
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.training.compilation import graphs_as_traced, is_small
from dssm_tf.training.distribution import Workers, choose_strategy
from dssm_tf.training.optimizers import make_optimizer
from dssm_tf.training.phases import Phases
from dssm_tf.training.run_directory import Result, finish_run, start_run
from dssm_tf.training.validation import ValidationTask, cosines


def train(
    config: Config,
    data: Path,
    out: Path,
    *,
    quiet: bool = False,
    told: Callable[[str, int, int], object] | None = None,
) -> Result:
    """Trains a model and writes the run's directory.

    A run that was interrupted, at any moment, goes on when called again with the same
    arguments, to the same result.

    Args:
        config: the model and how to train it.
        data: directory that preprocess wrote.
        out: the run: configuration, vocabulary, weights, history, versions, model card.
        quiet: no progress on the terminal.
        told: called at the start of an epoch with the phase, the epochs done and their number.

    Raises:
        UserError: data or configuration are unusable, `out` is finished or of another
            configuration, or the loss stopped being a number.
    """
    started = monotonic()
    data, out = Path(data), Path(out)
    workers = Workers.from_environment()
    strategy = choose_strategy(workers)  # first: it configures TensorFlow's collectives
    spec = FeatureSpec.load(data)
    check_settings(config, data, spec)
    vocabulary = load_vocabulary(data, spec)
    splits = tuple(split for split in ("train", "validation") if spec.records.get(split))
    for split in splits:
        verify_records(data, split, spec)
    _check_devices(config, spec, workers, strategy)  # before there is a directory to clean up
    if workers.chief:
        start_run(config, data, out)
    with explain_damage(data, splits), graphs_as_traced(is_small(config, spec.records["train"])):
        task = None
        if "validation" in splits:
            task = ValidationTask.load(data, config.validation.queries, config.validation.titles)
        phases = Phases(config, data, out, spec, vocabulary, workers, strategy, quiet, told)
        model, keeper = phases.train("fit", ("train",), task, config.training.epochs)
        keeper.put_best_back(model)
        weight, ndcg = _weigh_prior(config, data, task, keeper.encode)
        result = Result(len(keeper.history), keeper.best_epoch, keeper.history, weight, ndcg)
        if config.training.refit and task is not None:
            model, last = phases.refit(splits, keeper)
            last.put_best_back(model)
            result.refitted = True
    result.seconds = monotonic() - started
    if workers.chief:
        finish_run(model, config, result, spec, out)
    return result


def check_settings(config: Config, data: Path, spec: FeatureSpec) -> None:
    """Refuses what could not be trained on these data, before anything is.

    Args:
        config: the model and how to train it.
        data: directory that preprocess wrote.
        spec: its feature spec.

    Raises:
        UserError: there are no records, or a setting does not suit them or the optimizer.
    """
    if not spec.records.get("train"):
        raise UserError(f"{data} holds no training records; give preprocess a longer log.")
    negatives = config.negatives
    if negatives.recorded > spec.negatives:
        raise UserError(
            f"negatives.recorded: {negatives.recorded} asked for, {data} holds {spec.negatives} a "
            f"pair; run preprocess with --negatives {negatives.recorded}."
        )
    if not (negatives.recorded or negatives.fresh or negatives.in_batch):
        raise UserError(
            "negatives: recorded and fresh are 0 and in_batch is false; the click needs rivals."
        )
    chosen = config.optimizer
    make_optimizer(chosen.name, chosen.learning_rate, 1, chosen.clip_norm, chosen.options)


def _check_devices(config: Config, spec: FeatureSpec, workers: Workers, strategy: Any) -> None:
    """Raises UserError on settings that would fail on these devices after the run has started."""
    parts = strategy.num_replicas_in_sync
    gpus = bool(tf.config.list_physical_devices("GPU"))
    if config.training.xla is True and parts > 1 and (workers.count > 1 or not gpus):
        raise UserError(
            f"training.xla: true cannot be used with {parts} devices "
            f"{'of several workers' if workers.count > 1 else 'that are no GPUs'}, whose exchange "
            "of gradients XLA does not compile; use auto or false."
        )
    if config.training.batch_size % parts:
        raise UserError(
            f"training.batch_size: {config.training.batch_size} cannot be cut into {parts} equal "
            f"parts, one a device; choose a multiple of {parts}."
        )


def _weigh_prior(
    config: Config, data: Path, task: ValidationTask | None, encode: Encoder
) -> tuple[float, dict[str, float]]:
    """The weight of the log-prior, and the validation NDCG with it."""
    chosen = config.ranking.prior
    if task is None:
        return (0.0 if chosen == "auto" else float(chosen)), {}
    matrix = cosines(encode, task)
    log_prior = TitlePrior(load_titles(data))(task.titles)
    if chosen == "auto":
        chosen, _ = task.best_prior_weight(matrix, log_prior)
    return float(chosen), task.ndcg(matrix + float(chosen) * log_prior)
