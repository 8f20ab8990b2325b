"""The systems of a benchmark, parsed from names, sweeps and configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dssm_tf.benchmark.prepare import RECORDED_NEGATIVES
from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError, check_name, similar_name_hint
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.config import (
    DEFAULT_CONFIG,
    config_directories,
    find_config,
    load_baseline,
    load_config,
)
from dssm_tf.training.start_vectors import check_start_vectors

POPULARITY = "popularity"
_GROUPS = ("all", "baselines", "towers")


@dataclass(frozen=True)
class System:
    """A row of the table: a system to fit, to train, or to use without fitting.

    Attributes:
        name: name of the row.
        kind: a key of `fit.KINDS`: a `tower` is trained, a `baseline` fitted.
        base: the baseline's name in `BASELINES`; the tower's configuration as YAML; or the file,
            directory or name of an existing system.
        parameters: parameters of the baseline.
        seeded: whether the result depends on a seed.
        negatives: number of recorded negatives that the configuration needs.
        sweep: key and value, if the row belongs to a sweep.
        files: existing files that the result depends on.
    """

    name: str
    kind: str
    base: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = False
    negatives: int = RECORDED_NEGATIVES
    sweep: tuple[str, Any] | None = None
    files: Sequence[Path] = ()

    def job(self, seed: int | None, tune: str) -> dict[str, Any]:
        """The job for `fit`: everything that the result depends on, except the inputs."""
        return {**asdict(self), "files": self.file_hashes, "seed": seed, "tune": tune}

    @property
    def file_hashes(self) -> dict[str, str]:
        """The SHA-256 of each of `files`."""
        return {str(path): sha256_of(path) for path in self.files}


def choose_systems(
    names: Sequence[str],
    sweeps: Sequence[str] = (),
    overrides: Sequence[str] = (),
    existing: Mapping[str, Mapping[str, str]] | None = None,
) -> list[System]:
    """The systems named on the command line, in table order.

    Args:
        names: names of `BASELINES`, configurations (shipped names or files), `POPULARITY`, or
            groups; `NAME=CONFIGURATION` gives a configuration another row name.
        sweeps: `SYSTEM.KEY=V1,V2,...`, one row per value.
        overrides: `KEY=VALUE` settings of every tower's configuration.
        existing: the file or directory of each existing system, or the name of an encoder, by kind
            and row name.

    Raises:
        UserError: a name, key or value is unknown.
    """
    from dssm_tf.systems import BASELINES

    groups = {"baselines": [*BASELINES], "towers": shipped_configs()}
    groups["all"] = [POPULARITY, *groups["baselines"], *groups["towers"]]
    sources: dict[str, str] = {}  # by row name, a baseline or a configuration
    for entry in names:
        if entry in groups:
            sources |= {name: name for name in groups[entry]}
        elif Path(entry).is_file():
            sources[Path(entry).stem] = entry
        else:
            row, _, source = entry.partition("=")
            sources[row] = source or row
    systems = [_parse_system(row, source, overrides) for row, source in sources.items()]
    for sweep in sweeps:
        systems += _sweep_systems(sweep, sources, overrides)
    for kind, rows in (existing or {}).items():
        for name, path in rows.items():
            files = [Path(path)] if kind != "encoder" or Path(path).is_dir() else []
            systems.append(System(name, kind, path, files=files))
    return systems


def shipped_configs() -> list[str]:
    """Names of the models' configurations at the top of configs/; the default one is the first."""
    paths = [path for folder in config_directories() for path in sorted(folder.glob("*.yaml"))]
    names = dict.fromkeys(path.stem for path in paths if load_baseline(path) is None)
    return sorted(names, key=lambda name: name != DEFAULT_CONFIG)


def _parse_system(
    row: str, source: str, overrides: Sequence[str], parameters: Mapping[str, Any] | None = None
) -> System:
    """Parses a baseline or a configuration to a row, with additional parameters.

    Raises:
        UserError: there is no such system, or a parameter is not allowed.
    """
    from dssm_tf.systems import BASELINES

    parameters = parameters or {}
    if source == POPULARITY:
        return System(row, POPULARITY)
    if source in BASELINES:
        base, configured, location = source, dict[str, Any](), ""
    else:
        try:
            path = find_config(source)
        except UserError:
            known = [*BASELINES, *shipped_configs(), *_GROUPS, POPULARITY]
            raise UserError(
                f"there is no system {source!r}; expected a configuration file or one of "
                f"{', '.join(known)}.{similar_name_hint(source, known)}"
            ) from None
        if not (baseline := load_baseline(path)):
            assignments = [f"{key}={_format_yaml(value)}" for key, value in parameters.items()]
            config = load_config(path, [*overrides, *assignments])
            check_start_vectors(config.start.vectors)
            negatives = max(RECORDED_NEGATIVES, config.negatives.recorded)
            return System(row, "tower", config.dump(), seeded=True, negatives=negatives)
        (base, configured), location = baseline, f"{path}: "
    check_name("baseline", base, BASELINES)
    settings = {**configured, **parameters}
    try:
        BASELINES[base](**settings)
    except (TypeError, ValueError) as error:
        raise UserError(f"{location}{error}") from None
    return System(row, "baseline", base, settings, "seed" in BASELINES[base].model_fields)


def _sweep_systems(
    entry: str, sources: Mapping[str, str], overrides: Sequence[str]
) -> list[System]:
    """One system per value of a sweep.

    The values are parsed as a YAML list, so `[300],[300,128]` are two values.
    """
    from dssm_tf.systems import BASELINES

    target, _, text = entry.partition("=")
    known = {name: name for name in (*BASELINES, *shipped_configs())} | {**sources}
    # The longest prefix that names a system: names of configuration files may contain dots.
    name = max((name for name in known if target.startswith(f"{name}.")), key=len, default="")
    key = target[len(name) + 1 :]
    try:
        values = parse_yaml(f"[{text}]")
    except ValueError:
        values = []
    if not name or not key or not values:
        name_prefix = target.partition(".")[0]
        raise UserError(
            f"--sweep {entry!r}: expected SYSTEM.KEY=V1,V2,..., such as "
            "lstm.tower.cells=32,64,96 or plsa.topics=100,500, SYSTEM one of "
            f"{', '.join(known)}.{similar_name_hint(name_prefix, known)}"
        )
    return [
        replace(
            _parse_system(
                f"{name}.{key}={_format_yaml(value)}", known[name], overrides, {key: value}
            ),
            sweep=(key, value),
        )
        for value in values
    ]


def _format_yaml(value: Any) -> str:
    """Formats a value as YAML without spaces.

    >>> _format_yaml([300, 128]), _format_yaml(0.5), _format_yaml("tanh")
    ('[300,128]', '0.5', 'tanh')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
