"""Puts a tower or a loss that was written in Python into a configuration."""

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
    """Copies a configuration and replaces its tower or loss.

    A class of this package gets the section with its name, such as `lstm`. Any other class gets
    the section `custom`.

    Args:
        config: the configuration whose tower and loss are replaced.
        tower: function from a vocabulary size to a tower; None: the tower of the configuration.
        loss: loss on clicks, or its name; None: the loss of the configuration.

    Raises:
        UserError: a class is not registered with Keras, is not a `Tower` or not a loss on clicks,
            or its `get_config` lacks an argument of its constructor.
    """
    sections: dict[str, Any] = {}
    if tower is not None:
        sections["tower"] = _tower_section(tower)
    if loss is not None:
        sections["loss"] = _loss_section(loss)
    return config.model_copy(update=sections)


def _tower_section(tower: Callable[[int], Tower]) -> Component:
    if not callable(tower) or (hasattr(tower, "get_config") and not isinstance(tower, type)):
        raise UserError(
            f"tower is {tower!r:.60}; expected a function from a vocabulary size to a tower, "
            "such as lambda size: MyTower(size, units=64)."
        )
    instance = tower(1)  # the section does not depend on the vocabulary size
    classes = section_classes(Config.model_fields["tower"].annotation)
    section = _built_in_section(instance, classes, 1)
    return section or CustomTowerConfig.from_tower(instance)


def _loss_section(loss: RankingLoss | str) -> Component:
    from dssm_tf import losses
    from dssm_tf.losses.ranking_loss import RankingLoss

    try:
        instance = losses.get(loss)
    except ValueError as error:
        raise UserError(str(error)) from None
    classes = section_classes(Config.model_fields["loss"].annotation)
    section = _built_in_section(instance, classes)
    if section is None and instance.__class__.__module__.startswith("dssm_tf.losses."):
        names = ", ".join(map(component_name, classes))
        raise UserError(
            f"loss is {type(instance).__name__}, which is for graded lists; expected a loss on "
            f"clicks: one of {names.removesuffix(', custom')}."
        )
    if not isinstance(instance, RankingLoss):
        raise UserError(f"loss is a {type(instance).__name__}; expected a RankingLoss.")
    return section or CustomLossConfig.from_loss(instance)


def _built_in_section(
    instance: Any, sections: Sequence[type[Any]], *build_arguments: Any
) -> Component | None:
    """The section of this package that builds an equal object; None if there is none."""
    config = instance.get_config()
    for section in sections:
        name = component_name(section)
        if name == "custom" or type(section().build(*build_arguments)) is not type(instance):
            continue
        fields = {key: _yaml_value(config[key]) for key in section.model_fields if key in config}
        try:
            result: Component = section.model_validate({**fields, "name": name})
        except ValidationError:  # for example, an initializer with arguments
            return None
        return result
    return None


def _yaml_value(value: Any) -> Any:
    """Replaces the Keras configuration of an initializer with default arguments by its name."""
    import keras

    if not (isinstance(value, dict) and "class_name" in value):
        return value
    instance = keras.initializers.get(value)
    default = type(instance)()
    if {**instance.get_config(), "seed": None} != {**default.get_config(), "seed": None}:
        return value
    name = type(instance).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
