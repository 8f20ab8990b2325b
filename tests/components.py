"""The towers and losses that configurations can name, with arguments for tests of all of them."""

from __future__ import annotations

from typing import Any

import keras
from pydantic import ValidationError

from dssm_tf.config import Config
from dssm_tf.config.lists import JudgmentsConfig
from dssm_tf.config.section import Component, Section
from dssm_tf.config.structure import component_name, section_classes
from dssm_tf.losses import RankingLoss
from dssm_tf.towers.tower import Tower

_VALUES = (0.25, 2, 5, True, False, (5, 4), "random_normal")


def _configs(section: type[Section], field: str) -> dict[str, Any]:
    """The configuration classes of a field, by their name in YAML."""
    classes = section_classes(section.model_fields[field].annotation)
    return {
        component_name(config): config for config in classes if component_name(config) != "custom"
    }


TOWER_CONFIGS = _configs(Config, "tower")
CLICK_LOSS_CONFIGS = _configs(Config, "loss")
GRADED_LOSS_CONFIGS = _configs(JudgmentsConfig, "loss")
LOSS_CONFIGS = CLICK_LOSS_CONFIGS | GRADED_LOSS_CONFIGS

TOWER_CLASSES: dict[str, type[Tower]] = {
    name: type(config().build(1)) for name, config in TOWER_CONFIGS.items()
}
LOSS_CLASSES: dict[str, type[RankingLoss]] = {
    name: type(config().build()) for name, config in LOSS_CONFIGS.items()
}


def defaults(config: type[Component]) -> dict[str, Any]:
    """The default of every field except the name."""
    return config().arguments()


def small_sizes(config: type[Component]) -> dict[str, Any]:
    """Small values for the size fields, to speed up tests; other fields keep their defaults."""
    sizes: dict[str, Any] = {}
    for field, default in defaults(config).items():
        if isinstance(default, tuple):
            sizes[field] = (5, 4)
        elif isinstance(default, int) and default > 8:
            sizes[field] = 4
    return sizes


def changed_values(config: type[Component]) -> dict[str, Any]:
    """A value other than the default for every field."""
    return {
        field: next(
            value for value in _VALUES if value != default and _is_valid(config, field, value)
        )
        for field, default in defaults(config).items()
    }


def build_tower(kind: str, vocabulary_size: int, **arguments: Any) -> Tower:
    """A tower with these constructor arguments, and defaults for the others."""
    return TOWER_CLASSES[kind](vocabulary_size, **arguments)


def build_loss(kind: str, **arguments: Any) -> RankingLoss:
    """A loss with these constructor arguments, and defaults for the others."""
    return LOSS_CLASSES[kind](**arguments)


def copy_of(component: Any) -> Any:
    """Serializes and deserializes a component with Keras."""
    return keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(component))


def _is_valid(config: type[Component], field: str, value: Any) -> bool:
    try:
        config.model_validate({field: value})
    except ValidationError:
        return False
    return True
