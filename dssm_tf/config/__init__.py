"""Configurations: YAML files, checked and frozen before Keras is loaded.

Each section is a pydantic model. A section that chooses a component (`tower`, `score`, `loss`,
`optimizer`) has a method `build` that creates it. May import text and common; only `build` and
`custom_parts` import towers, scores, losses and optimizers.
"""

from dssm_tf.config.load import (
    DEFAULT_CONFIG,
    config_directories,
    find_config,
    load_baseline,
    load_config,
    parse_config,
)
from dssm_tf.config.model import Config

__all__ = [
    "DEFAULT_CONFIG",
    "Config",
    "config_directories",
    "find_config",
    "load_baseline",
    "load_config",
    "parse_config",
]
