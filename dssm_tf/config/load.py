"""Reads configurations from YAML files, and applies overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dssm_tf.common.errors import UserError, similar_name_hint
from dssm_tf.common.files import refuse_special_file
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.config.messages import explain, explain_override
from dssm_tf.config.model import Config

DEFAULT_CONFIG = "maxsim"
"""The configuration that `dssm train` uses by default."""

_BASELINE = "baseline"
"""The top-level key of a file that configures a baseline. Other files have `tower`."""


_PIPE_HINT = "Write the configuration to a file first."


def config_directories() -> tuple[Path, ...]:
    """The directories of the shipped configurations: in an installation, and in a checkout."""
    package = Path(__file__).parents[1]
    return package / "configs", package.parent / "configs"


def find_config(name: str) -> Path:
    """The file of a configuration: a path, or the name of a shipped one, such as `lstm`.

    Raises:
        UserError: there is no such file or configuration; the message lists the shipped names.
    """
    if Path(name).is_file():
        return Path(name)
    refuse_special_file(name, _PIPE_HINT)
    shipped: dict[str, Path] = {}
    for directory in config_directories():
        for path in sorted(directory.glob("**/*.yaml")):
            shipped.setdefault(str(path.relative_to(directory).with_suffix("")), path)
    if name in shipped:
        return shipped[name]
    raise UserError(
        f"{name} is neither a file nor a configuration of the package, which has "
        f"{', '.join(shipped) or 'none'}.{similar_name_hint(name, shipped)}"
    )


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file and applies dotted overrides such as `training.epochs=5`.

    Raises:
        UserError: the file or an override is wrong. The message has the key, the received value,
            and the allowed values.
    """
    raw = _read(path)
    if _BASELINE in raw:
        raise UserError(
            f"{path} configures a baseline; use it with `dssm benchmark`: "
            f"dssm benchmark --systems bm25,mine={path} ..."
        )
    changed = deepcopy(raw)
    for override in overrides:
        _apply_override(changed, override)
    try:
        return Config.model_validate(changed)
    except ValidationError as error:
        if overrides:
            parse_config(raw, str(path))  # raises if the file itself is wrong
            raise explain_override(error, raw, overrides) from None
        raise UserError(f"{path}: {explain(error)}") from None


def load_baseline(path: Path) -> tuple[str, dict[str, Any]] | None:
    """The name and the parameters of the baseline that a file configures; None for other files.

    Such a file has `baseline:` with parameters and a `name`, a key of `dssm_tf.systems.BASELINES`.

    Raises:
        UserError: the file cannot be read, is not YAML, has keys other than `baseline:`, or has no
            `name`.
    """
    raw = _read(path)
    if _BASELINE not in raw:
        return None
    section = raw[_BASELINE]
    if set(raw) != {_BASELINE} or not isinstance(section, dict) or "name" not in section:
        raise UserError(f"{path}: expected only `baseline:`, with its `name` and parameters.")
    return str(section["name"]), {key: value for key, value in section.items() if key != "name"}


def parse_config(raw: Mapping[str, Any], source: str = "configuration") -> Config:
    """Converts plain data, such as parsed YAML, to a configuration.

    Raises:
        UserError: a value is wrong. The message has the key, the received value, and the allowed
            values.
    """
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{source}: {explain(error)}") from None


def _read(path: Path) -> dict[str, Any]:
    refuse_special_file(path, _PIPE_HINT)
    try:
        raw = parse_yaml(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; give a configuration, such as "
            "configs/lstm.yaml."
        ) from None
    except ValueError as error:  # includes UnicodeDecodeError
        raise UserError(f"{path} is not YAML: {error}") from None
    if not isinstance(raw, dict):
        content = "nothing" if raw is None else f"a {type(raw).__name__}"
        raise UserError(f"{path} contains {content}; expected keys such as `tower:`.")
    return raw


def _apply_override(raw: dict[str, Any], override: str) -> None:
    """Sets one dotted key in place; missing sections are added."""
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r}: expected KEY=VALUE, e.g. training.epochs=5.")
    *parents, last = key.split(".")
    target = raw
    for parent in parents:
        if target.get(parent) is None:  # missing or empty
            target[parent] = {}
        target = target[parent]
        if not isinstance(target, dict):
            raise UserError(f"--set {override!r}: {parent} is a value and has no keys below it.")
    try:
        target[last] = parse_yaml(value)
    except ValueError:
        raise UserError(f"--set {override!r}: {value!r} is not a YAML value.") from None
