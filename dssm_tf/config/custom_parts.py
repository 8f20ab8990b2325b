"""Replaces the tower or the loss of a configuration by one that was made in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dssm_tf.common.errors import UserError
from dssm_tf.config.losses import CustomLossConfig
from dssm_tf.config.model import Config
from dssm_tf.config.section import Component
from dssm_tf.config.structure import component_name, section_classes
from dssm_tf.config.towers import CustomTowerConfig

if TYPE_CHECKING:
    from dssm_tf.losses import RankingLoss
    from dssm_tf.towers.tower import Tower


def with_custom_parts(
    config: Config,
    tower: Callable[[int], Tower] | None = None,
    loss: RankingLoss | str | None = None,
) -> Config:
    """The configuration with another tower or loss.

    A class of this package is described by its own section, any other by `custom`.

    Args:
        config: the configuration whose tower and loss are replaced.
        tower: makes a tower for a vocabulary size; None keeps the configuration's.
        loss: loss of the clicks, or its name; None keeps the configuration's.

    Raises:
        UserError: a class is not registered with Keras, is no `Tower` or no loss of clicks, or its
            `get_config` lacks an argument of its constructor.
    """
    parts: dict[str, Any] = {}
    if tower is not None:
        parts["tower"] = _tower_section(tower)
    if loss is not None:
        parts["loss"] = _loss_section(loss)
    return config.model_copy(update=parts)


def _tower_section(tower: Callable[[int], Tower]) -> Component:
    if not callable(tower) or (hasattr(tower, "get_config") and not isinstance(tower, type)):
        raise UserError(
            f"tower is {tower!r:.60}; expected a function from a vocabulary size to a tower, "
            "such as lambda size: MyTower(size, units=64)."
        )
    # The description leaves the vocabulary size out, so any size does.
    instance = tower(1)
    own = _own_section(instance, section_classes(Config.model_fields["tower"].annotation), 1)
    return own or CustomTowerConfig.from_tower(instance)


def _loss_section(loss: RankingLoss | str) -> Component:
    from dssm_tf import losses
    from dssm_tf.losses.ranking_loss import RankingLoss

    try:
        instance = losses.get(loss)
    except ValueError as error:
        raise UserError(str(error)) from None
    classes = section_classes(Config.model_fields["loss"].annotation)
    own = _own_section(instance, classes)
    if own is None and instance.__class__.__module__.startswith("dssm_tf.losses."):
        names = ", ".join(component_name(section) for section in classes)
        raise UserError(
            f"loss is {type(instance).__name__}, which is for graded lists; a loss of clicks is "
            f"one of {names.removesuffix(', custom')}."
        )
    if not isinstance(instance, RankingLoss):
        raise UserError(f"loss is a {type(instance).__name__}; expected a RankingLoss.")
    return own or CustomLossConfig.from_loss(instance)


def _own_section(
    instance: Any, sections: Sequence[type[Any]], *build_arguments: Any
) -> Component | None:
    """The section of this package that describes an instance; None if there is none."""
    config = instance.get_config()
    for section in sections:
        name = component_name(section)
        if name == "custom" or type(section().build(*build_arguments)) is not type(instance):
            continue
        fields = {key: _plain(config[key]) for key in section.model_fields if key in config}
        try:
            described: Component = section.model_validate({**fields, "name": name})
        except ValidationError:  # such as an initializer with arguments
            return None
        return described
    return None


def _plain(value: Any) -> Any:
    """A value of a Keras configuration as YAML has it: initializers by name if they are default."""
    import keras

    if not (isinstance(value, dict) and "class_name" in value):
        return value
    instance = keras.initializers.get(value)
    default = type(instance)()
    if {**instance.get_config(), "seed": None} != {**default.get_config(), "seed": None}:
        return value
    name = type(instance).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
