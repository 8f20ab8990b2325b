"""Reads a configuration that is given as a file, a name, a dictionary or a `Config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, find_config, load_config, parse_config


def read_config(
    config: Config | Mapping[str, Any] | Path | str, overrides: Sequence[str]
) -> Config:
    """Reads a configuration.

    Args:
        config: a YAML file; the name of a configuration in the package; a dictionary; or a
            `Config`.
        overrides: settings that override those of a file or of a named configuration, such as
            `training.epochs=5`.

    Raises:
        UserError: a setting is not allowed, or overrides are given with a dictionary or a `Config`.
    """
    if isinstance(config, (str, Path)):
        return load_config(find_config(str(config)), overrides)
    if overrides:
        raise UserError(
            f"overrides {list(overrides)!r:.80} apply only to a file or a named configuration; "
            "change the dictionary or the object instead."
        )
    return config if isinstance(config, Config) else parse_config(dict(config))
