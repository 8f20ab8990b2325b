"""Which systems a benchmark holds: names, sweeps and configurations to things to fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dssm_tf.benchmark.prepare import RECORDED
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError, check_name, did_you_mean
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.config import config_directories, find_config, load_baseline, load_config

POPULARITY = "popularity"
_GROUPS = ("all", "baselines", "towers")


@dataclass(frozen=True)
class System:
    """A row of the table that is fitted, trained, or ranked by as it is.

    Attributes:
        name: of the row.
        kind: a key of `fit.KINDS`: a `tower` is trained, a `baseline` fitted.
        base: the baseline's name in `BASELINES`; the tower's configuration as YAML; the file, the
            directory or the encoder's name of what was made elsewhere.
        parameters: arguments of the baseline's constructor.
        seeded: whether it is random, so that seeds differ.
        negatives: recorded negatives the configuration needs.
        sweep: the key and the value that make the row one of a sweep.
        files: what was made elsewhere and its result depends on.
    """

    name: str
    kind: str
    base: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = False
    negatives: int = RECORDED
    sweep: tuple[str, Any] | None = None
    files: Sequence[Path] = ()

    def job(self, seed: int | None, tune: str) -> dict[str, Any]:
        """What a result depends on besides the inputs: what `fit` is given."""
        return {**asdict(self), "files": self.fingerprints, "seed": seed, "tune": tune}

    @property
    def fingerprints(self) -> dict[str, str]:
        """The SHA-256 of each of `files`."""
        return {str(path): fingerprint(path) for path in self.files}


def choose_systems(
    names: Sequence[str],
    sweeps: Sequence[str] = (),
    overrides: Sequence[str] = (),
    given: Mapping[str, Mapping[str, str]] | None = None,
) -> list[System]:
    """The systems that the command line names, in table order.

    Args:
        names: rows of `BASELINES`, configurations (shipped names or files), `POPULARITY`, groups;
            a configuration with another name as `NAME=CONFIGURATION`.
        sweeps: `SYSTEM.KEY=V1,V2,...`, a row a value.
        overrides: `KEY=VALUE` settings of every tower's configuration.
        given: by kind, what was made elsewhere, by the row's name: a file or a directory; of an
            encoder it may be a name.

    Raises:
        UserError: a name, key or value is unknown.
    """
    from dssm_tf.systems import BASELINES

    groups = {"baselines": [*BASELINES], "towers": shipped_configs()}
    groups["all"] = [POPULARITY, *groups["baselines"], *groups["towers"]]
    sources: dict[str, str] = {}  # by row, a baseline or a configuration
    for entry in names:
        if entry in groups:
            sources |= {one: one for one in groups[entry]}
        elif Path(entry).is_file():
            sources[Path(entry).stem] = entry
        else:
            row, _, source = entry.partition("=")
            sources[row] = source or row
    found = [_system(*one, overrides) for one in sources.items()]
    for sweep in sweeps:
        found += _swept(sweep, sources, overrides)
    for kind, rows in (given or {}).items():
        for name, place in rows.items():
            files = [Path(place)] if kind != "encoder" or Path(place).is_dir() else []
            found.append(System(name, kind, place, files=files))
    return found


def shipped_configs() -> list[str]:
    """Names of the towers' configurations at the top of configs/, one a model."""
    paths = [path for folder in config_directories() for path in sorted(folder.glob("*.yaml"))]
    return [*dict.fromkeys(path.stem for path in paths if load_baseline(path) is None)]


def _system(
    row: str, source: str, overrides: Sequence[str], parameters: Mapping[str, Any] | None = None
) -> System:
    """A row of a baseline or a configuration, with further parameters."""
    from dssm_tf.systems import BASELINES

    parameters = parameters or {}
    if source == POPULARITY:
        return System(row, POPULARITY)
    if source in BASELINES:
        base, given = source, dict[str, Any]()
    else:
        try:
            path = find_config(source)
        except UserError:
            known = [*BASELINES, *shipped_configs(), *_GROUPS, POPULARITY]
            raise UserError(
                f"there is no system {source!r}; it is neither a configuration's file nor one of "
                f"{', '.join(known)}.{did_you_mean(source, known)}"
            ) from None
        if not (found := load_baseline(path)):
            words = [f"{key}={_plain(value)}" for key, value in parameters.items()]
            config = load_config(path, [*overrides, *words])
            negatives = max(RECORDED, config.negatives.recorded)
            return System(row, "tower", config.dump(), seeded=True, negatives=negatives)
        base, given = found
    check_name("baseline", base, BASELINES)
    settings, arguments = {**given, **parameters}, BASELINES[base].arguments()
    for key in settings.keys() - set(arguments):
        raise UserError(f"{base} has no parameter {key!r}; it has {', '.join(arguments)}.")
    try:
        BASELINES[base](**settings)
    except (TypeError, ValueError) as error:  # before anything is fitted
        raise UserError(f"{base} with {settings}: {error}") from None
    return System(row, "baseline", base, settings, "seed" in arguments)


def _swept(entry: str, sources: Mapping[str, str], overrides: Sequence[str]) -> list[System]:
    """One system a value of a sweep.

    The values stand as in a YAML list, so `[300],[300,128]` are two.
    """
    from dssm_tf.systems import BASELINES

    target, _, text = entry.partition("=")
    known = {one: one for one in (*BASELINES, *shipped_configs())} | {**sources}
    # The longest beginning that names a system: a configuration's file may hold dots.
    name = max((one for one in known if target.startswith(f"{one}.")), key=len, default="")
    key = target[len(name) + 1 :]
    try:
        values = parse_yaml(f"[{text}]")
    except ValueError:
        values = []
    if not name or not key or not values:
        first = target.partition(".")[0]
        raise UserError(
            f"--sweep {entry!r}: expected SYSTEM.KEY=V1,V2,..., such as "
            "lstm.tower.cells=32,64,96 or plsa.topics=100,500, SYSTEM one of "
            f"{', '.join(known)}.{did_you_mean(first, known)}"
        )
    return [
        replace(
            _system(f"{name}.{key}={_plain(value)}", known[name], overrides, {key: value}),
            sweep=(key, value),
        )
        for value in values
    ]


def _plain(value: Any) -> str:
    """A value as YAML reads it back, without spaces.

    >>> _plain([300, 128]), _plain(0.5), _plain("tanh")
    ('[300,128]', '0.5', 'tanh')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
