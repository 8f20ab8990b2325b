"""Refuses what could not be trained, before anything is."""

from __future__ import annotations

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.devices import Devices
from dssm_tf.training.optimizers import check_optimizer


def with_gamma(config: Config, data: Preprocessed) -> Config:
    """The configuration with the number that `loss.gamma: auto` is for these data.

    The more titles there are, the more of them nearly fit a query, and the steeper a softmax has
    to be to tell them apart: 10 up to 2,500 titles, 25 from 6,250 on, see docs/training.md.
    """
    if config.loss.arguments.get("gamma") != "auto":
        return config
    gamma = min(25.0, max(10.0, data.spec.count("titles") / 250))
    return config.model_copy(update={"loss": config.loss.model_copy(update={"gamma": gamma})})


def check_settings(config: Config, data: Preprocessed) -> None:
    """Raises UserError where records, negatives or optimizer are unusable.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
    """
    check_records(config, data)
    if config.training.folds and config.lists:
        raise UserError(
            "training.folds holds the log's queries out in turn; leave it out where judgments or "
            "a teacher are learned from."
        )
    chosen = config.optimizer
    check_optimizer(chosen.name, chosen.learning_rate, chosen.clip_norm, chosen.options)


def check_records(config: Config, data: Preprocessed) -> None:
    """Raises UserError where there are no records, or the negatives do not suit them.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
    """
    if not data.count("train"):
        raise UserError(
            f"{data.directory} holds no training records; give preprocess a longer log."
        )
    negatives, recorded = config.negatives, data.spec.negatives
    if negatives.recorded > recorded:
        raise UserError(
            f"negatives.recorded: {negatives.recorded} asked for, {data.directory} holds "
            f"{recorded} a pair; run preprocess with --negatives {negatives.recorded}."
        )
    others = negatives.fresh or negatives.in_batch or negatives.mined_from
    if not (negatives.recorded or others):
        raise UserError(
            "negatives: recorded and fresh are 0 and in_batch is false; the click needs rivals."
        )
    if not (others or (data.parts["train"].titles[:, 1:] >= 0).any()):
        raise UserError(
            f"{data.directory}: no record holds a negative, and there are no others: no click has "
            "a rival to learn from. Run preprocess with --negatives-from log, or set "
            "negatives.in_batch or negatives.fresh."
        )


def check_devices(config: Config, devices: Devices) -> None:
    """Raises UserError on settings that would fail on these devices once training has started.

    Args:
        config: the model and how to train it.
        devices: what trains.
    """
    parts, several = devices.parts, devices.workers.count > 1
    if config.training.xla is True and parts > 1 and (several or not devices.gpus):
        raise UserError(
            f"training.xla: true cannot be used with {parts} devices "
            f"{'of several workers' if several else 'that are no GPUs'}, whose exchange of "
            "gradients XLA does not compile; use auto or false."
        )
    sizes = {"training": config.training.batch_size}
    sizes |= {name: section.batch_size for name, section in config.lists.items()}
    for name, size in sizes.items():
        if size % parts:
            raise UserError(
                f"{name}.batch_size: {size} cannot be cut into {parts} equal parts, one a device; "
                f"choose a multiple of {parts}."
            )
