"""Checks before a training starts: that data, settings and devices fit together."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.common.errors import UserError
from dssm_tf.config.lists import ListsConfig
from dssm_tf.config.training import NegativesConfig, TrainingConfig
from dssm_tf.data.preprocessed import Preprocessed


def check_data(negatives: NegativesConfig, data: Preprocessed) -> None:
    """Raises UserError if there are no training records, or no negatives for them."""
    if not data.count("train"):
        raise UserError(
            f"{data.directory} holds no training records; give preprocess a longer log."
        )
    recorded = data.spec.negatives
    if negatives.recorded > recorded:
        raise UserError(
            f"negatives.recorded: {negatives.recorded} asked for, {data.directory} holds "
            f"{recorded} per pair; run preprocess with --negatives {negatives.recorded}."
        )
    drawn = negatives.fresh or negatives.in_batch or negatives.mined
    if not (drawn or (data.splits["train"].titles[:, 1 : 1 + negatives.recorded] >= 0).any()):
        raise UserError(
            "negatives: recorded ones are 0 or missing, and there are no others: there is nothing "
            "to tell a click from. Set negatives.in_batch or negatives.fresh, or run preprocess "
            "with --negatives-from log."
        )


def check_batch_sizes(
    training: TrainingConfig, lists: Mapping[str, ListsConfig], replicas: int
) -> None:
    """Raises UserError if a batch cannot be shared equally by the devices.

    Args:
        training: with the batch size of clicks.
        lists: graded lists by section, each with a batch size.
        replicas: devices that share a step.
    """
    sizes = {"training": training.batch_size}
    sizes |= {name: section.batch_size for name, section in lists.items()}
    for section, size in sizes.items():
        if size % replicas:
            raise UserError(
                f"{section}.batch_size: {size} cannot be divided among {replicas} devices; choose "
                f"a multiple of {replicas}."
            )
