"""Replaces the tower or the loss of a configuration by one from outside this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dssm_tf.config.losses import CustomLossConfig
from dssm_tf.config.model import Config
from dssm_tf.config.towers import CustomTowerConfig

if TYPE_CHECKING:
    from dssm_tf.losses import RankingLoss
    from dssm_tf.towers.tower import Tower


def with_custom_parts(
    config: Config, tower: Callable[[int], Tower] | None, loss: RankingLoss | None
) -> Config:
    """The configuration with a tower or a loss from outside this package.

    Args:
        config: the configuration whose tower and loss are replaced.
        tower: makes a tower for a vocabulary size; None keeps the configuration's.
        loss: loss of the clicks; None keeps the configuration's.

    Raises:
        UserError: a class is not registered with Keras, or is no `Tower` or `RankingLoss`.
    """
    parts: dict[str, Any] = {}
    if tower is not None:
        # The size does not matter: the description leaves it out.
        parts["tower"] = CustomTowerConfig.from_tower(tower(1))
    if loss is not None:
        parts["loss"] = CustomLossConfig.from_loss(loss)
    return config.model_copy(update=parts)
