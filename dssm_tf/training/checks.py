"""Checks data, settings and devices before a training starts."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.common.errors import UserError
from dssm_tf.config.lists import ListsConfig
from dssm_tf.config.training import NegativesConfig, TrainingConfig
from dssm_tf.data.preprocessed import Preprocessed


def check_data(negatives: NegativesConfig, data: Preprocessed) -> None:
    """Raises UserError if there are no training records, or no negatives for them."""
    if not data.count("train"):
        raise UserError(f"{data.directory} has no training records; give preprocess a longer log.")
    recorded = data.spec.negatives
    if negatives.recorded > recorded:
        raise UserError(
            f"negatives.recorded: received {negatives.recorded}, but {data.directory} has "
            f"{recorded} per pair; run preprocess with --negatives {negatives.recorded}."
        )
    has_other_negatives = negatives.fresh or negatives.in_batch or negatives.mined
    recorded_titles = data.splits["train"].titles[:, 1 : 1 + negatives.recorded]
    if not (has_other_negatives or (recorded_titles >= 0).any()):
        raise UserError(
            "negatives: there are none. Recorded negatives are 0 or missing, and no others are "
            "configured. Set negatives.in_batch or negatives.fresh, or run preprocess "
            "with --negatives-from log."
        )


def check_batch_sizes(
    training: TrainingConfig, lists: Mapping[str, ListsConfig], replicas: int
) -> None:
    """Raises UserError if a batch cannot be divided equally among the devices.

    Args:
        training: has the batch size of clicks.
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
