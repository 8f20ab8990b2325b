"""Which systems a benchmark holds: names, sweeps and configurations to things to fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dssm_tf.benchmark.external import check_encoder
from dssm_tf.benchmark.prepare import INPUTS, RECORDED, SHARES, data_name
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError, did_you_mean
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.common.versions import versions
from dssm_tf.config import (
    config_directories,
    find_config,
    load_baseline,
    load_config,
)
from dssm_tf.evaluation.evaluation import CLICKS

POPULARITY = "popularity"
_GROUPS = ("all", "baselines", "towers")


@dataclass(frozen=True)
class System:
    """A row of the table that is fitted or trained.

    Attributes:
        name: of the row.
        kind: a `tower`, trained, a `baseline`, fitted, or an `encoder`, as it is.
        base: the baseline's name in `BASELINES`; the tower's configuration as YAML; the encoder's
            directory or name.
        parameters: arguments of the baseline's constructor.
        seeded: whether it is random, so that seeds differ.
        negatives: recorded negatives the configuration needs.
        sweep: the key and the value that make the row one of a sweep.
        inputs: the folder that it learns from, see `Inputs`.
    """

    name: str
    kind: Literal["baseline", "tower", "encoder"]
    base: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = True
    negatives: int = 0
    sweep: tuple[str, Any] | None = None
    inputs: str = INPUTS

    @property
    def data(self) -> str:
        """The directory of preprocessed clicks that a tower is trained on."""
        return data_name(self.negatives)

    def job(self, seed: int | None, tune: str) -> dict[str, Any]:
        """What a result depends on besides the inputs: what `fit` is given.

        Versions are among it: a result of another version of a library is not taken over.
        """
        path = Path(self.base)
        weights = fingerprint(path) if self.kind == "encoder" and path.is_dir() else None
        facts = {**asdict(self), "data": self.data, "seed": seed, "tune": tune, "weights": weights}
        return facts | {"versions": versions()}


def choose_systems(
    names: Sequence[str],
    configs: Sequence[str] = (),
    sweeps: Sequence[str] = (),
    overrides: Sequence[str] = (),
    encoders: Mapping[str, str] | None = None,
    curves: Sequence[str] = (),
) -> list[System]:
    """The systems that the command line names, in table order.

    Args:
        names: rows of `BASELINES`, configurations (shipped names or files), and groups.
        configs: `NAME=FILE`, further rows, or other configurations for named rows.
        sweeps: `SYSTEM.KEY=V1,V2,...`, a row a value.
        overrides: `KEY=VALUE` settings of every tower's configuration.
        encoders: directories or names of encoders, by the row's name.
        curves: rows that are there for `SHARES` of the clicks, too.

    Raises:
        UserError: a name, key or value is unknown.
    """
    from dssm_tf.systems import BASELINES

    files = dict(_named_file(entry) for entry in configs)
    wanted: list[str] = []
    for name in names:
        if name in ("all", "baselines"):
            wanted += BASELINES
        if name in ("all", "towers"):
            wanted += shipped_configs()
        if name not in _GROUPS:
            wanted.append(name)
    wanted += files
    systems = {name: _system(name, files, overrides) for name in dict.fromkeys(wanted)}
    for sweep in sweeps:
        for system in _swept(sweep, files, overrides):
            systems[system.name] = system
    for name in curves:
        if name not in systems:
            raise UserError(
                f"--learning-curve {name}: there is no such row to fit; the rows are "
                f"{', '.join(systems) or 'none'}."
            )
    for name, (share, folder) in product(curves, SHARES.items()):
        row = f"{name}.{CLICKS}={share}"
        systems[row] = replace(systems[name], name=row, sweep=(CLICKS, share), inputs=folder)
    found = [*systems.values()]
    for name, model in (encoders or {}).items():
        check_encoder(model)
        found.append(System(name, "encoder", model, seeded=False))
    return found


def shipped_configs() -> list[str]:
    """Names of the towers' configurations at the top of configs/, one a model."""
    found: dict[str, None] = {}
    for directory in config_directories():
        paths = sorted(directory.glob("*.yaml"))
        found.update((path.stem, None) for path in paths if load_baseline(path) is None)
    return list(found)


def _named_file(entry: str) -> tuple[str, str]:
    name, equals, path = entry.partition("=")
    if not equals or not name or not path:
        raise UserError(
            f"--configs {entry!r}: expected NAME=FILE, FILE being a configuration's file or name."
        )
    try:
        return name, str(find_config(path))
    except UserError as error:
        raise UserError(f"--configs {entry}: {error}") from error


def _system(
    name: str,
    files: Mapping[str, str],
    overrides: Sequence[str],
    parameters: Mapping[str, Any] | None = None,
    row: str | None = None,
    sweep: tuple[str, Any] | None = None,
) -> System:
    from dssm_tf.systems import BASELINES

    parameters = parameters or {}
    if name in BASELINES and name not in files:
        return _baseline(row or name, name, parameters, sweep)
    try:
        path = find_config(files.get(name, name))
    except UserError:
        known = [*BASELINES, *shipped_configs(), *_GROUPS, POPULARITY]
        raise UserError(
            f"there is no system {name!r}; it is neither a configuration's file nor one of "
            f"{', '.join(known)}.{did_you_mean(name, known)}"
        ) from None
    row = row or (name if not Path(name).is_file() else Path(name).stem)
    if found := load_baseline(path):
        base, given = found
        if base not in BASELINES:
            raise UserError(
                f"{path}: no baseline {base!r}; choose from {', '.join(BASELINES)}."
                f"{did_you_mean(base, BASELINES)}"
            )
        return _baseline(row, base, {**given, **parameters}, sweep)
    config = load_config(path, [*overrides, *(f"{k}={_plain(v)}" for k, v in parameters.items())])
    negatives = max(RECORDED, config.negatives.recorded)
    return System(row, "tower", config.dump(), negatives=negatives, sweep=sweep)


def _baseline(
    row: str, name: str, parameters: Mapping[str, Any], sweep: tuple[str, Any] | None
) -> System:
    _check_parameters(name, parameters)
    from dssm_tf.systems import BASELINES

    seeded = "seed" in BASELINES[name].arguments()
    return System(row, "baseline", name, parameters, seeded, sweep=sweep)


def _swept(entry: str, files: Mapping[str, str], overrides: Sequence[str]) -> list[System]:
    """One system a value of a sweep.

    The values stand as in a YAML list, so `[300],[300,128]` are two.
    """
    target, equals, text = entry.partition("=")
    try:
        values = parse_yaml(f"[{text}]")
    except ValueError:
        values = []
    # The longest beginning that names a system: a configuration's file may hold dots.
    name, key = _split_target(target, files)
    if not equals or not name or not values:
        raise UserError(
            f"--sweep {entry!r}: expected SYSTEM.KEY=V1,V2,..., such as "
            "lstm.tower.cells=32,64,96 or plsa.topics=100,500."
        )
    return [
        _system(name, files, overrides, {key: value}, f"{name}.{key}={_plain(value)}", (key, value))
        for value in values
    ]


def _split_target(target: str, files: Mapping[str, str]) -> tuple[str, str]:
    from dssm_tf.systems import BASELINES

    known = [*files, *BASELINES, *shipped_configs()]
    for name in sorted(known, key=len, reverse=True):
        if target.startswith(f"{name}.") and len(target) > len(name) + 1:
            return name, target[len(name) + 1 :]
    name, _, key = target.partition(".")
    if key:
        raise UserError(
            f"--sweep {target}: there is no system {name!r}; choose from {', '.join(known)}, or "
            f"name a configuration with --configs NAME=FILE.{did_you_mean(name, known)}"
        )
    return "", ""


def _plain(value: Any) -> str:
    """A value as YAML reads it back, without spaces.

    >>> _plain([300, 128]), _plain(0.5), _plain("tanh")
    ('[300,128]', '0.5', 'tanh')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _check_parameters(name: str, parameters: Mapping[str, Any]) -> None:
    """Refuses what the constructor would refuse, before anything is fitted."""
    from dssm_tf.systems import BASELINES

    names = BASELINES[name].arguments()
    for key in parameters:
        if key not in names:
            raise UserError(
                f"{name}.{key}: {name} has no parameter {key!r}; it has "
                f"{', '.join(names) or 'none'}.{did_you_mean(key, names)}"
            )
    try:
        BASELINES[name](**parameters)
    except (TypeError, ValueError) as error:
        settings = ", ".join(f"{name}.{key}={_plain(value)}" for key, value in parameters.items())
        raise UserError(f"{settings}: {error}") from None
