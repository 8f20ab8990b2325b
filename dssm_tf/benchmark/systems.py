"""Which systems a benchmark holds: names, sweeps and configurations to things to fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dssm_tf.benchmark.prepare import INPUTS, RECORDED, SHARES, data_name
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError, check_name, did_you_mean
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.common.versions import versions
from dssm_tf.config import config_directories, find_config, load_baseline, load_config
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
    negatives: int = RECORDED
    sweep: tuple[str, Any] | None = None
    inputs: str = INPUTS

    def job(self, seed: int | None, tune: str) -> dict[str, Any]:
        """What a result depends on besides the inputs: what `fit` is given.

        Versions are among it: a result of another version of a library is not taken over.
        """
        path = Path(self.base)
        weights = fingerprint(path) if self.kind == "encoder" and path.is_dir() else None
        facts = {"data": data_name(self.negatives), "seed": seed, "tune": tune, "weights": weights}
        return {**asdict(self), **facts, "versions": versions()}


def choose_systems(
    names: Sequence[str],
    configs: Sequence[str] = (),
    sweeps: Sequence[str] = (),
    overrides: Sequence[str] = (),
    encoders: Mapping[str, str] | None = None,
) -> list[System]:
    """The systems that the command line names, in table order.

    Args:
        names: rows of `BASELINES`, configurations (shipped names or files), and groups.
        configs: `NAME=FILE`, further rows, or other configurations for named rows.
        sweeps: `SYSTEM.KEY=V1,V2,...`, a row a value; of `SYSTEM.clicks` they are `SHARES`.
        overrides: `KEY=VALUE` settings of every tower's configuration.
        encoders: directories or names of encoders, by the row's name.

    Raises:
        UserError: a name, key or value is unknown.
    """
    from dssm_tf.systems import BASELINES

    files = dict(map(_named_file, configs))
    groups = {"baselines": [*BASELINES], "towers": shipped_configs()}
    groups["all"] = [*groups["baselines"], *groups["towers"]]
    wanted = [one for name in names for one in groups.get(name, [name])]
    systems = {name: _system(name, files, overrides) for name in (*wanted, *files)}
    for sweep in sweeps:
        systems |= {one.name: one for one in _swept(sweep, files, overrides)}
    found = [*systems.values()]
    for name, model in (encoders or {}).items():
        found.append(System(name, "encoder", model, seeded=False))
    return found


def shipped_configs() -> list[str]:
    """Names of the towers' configurations at the top of configs/, one a model."""
    paths = [path for folder in config_directories() for path in sorted(folder.glob("*.yaml"))]
    return [*dict.fromkeys(path.stem for path in paths if load_baseline(path) is None)]


def _named_file(entry: str) -> tuple[str, str]:
    name, _, path = entry.partition("=")
    if not name or not path:
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
) -> System:
    """What a name stands for, with further parameters."""
    from dssm_tf.systems import BASELINES

    parameters, row = parameters or {}, name
    if name in BASELINES and name not in files:
        base, given = name, dict[str, Any]()
    else:
        try:
            path = find_config(files.get(name, name))
        except UserError:
            known = [*BASELINES, *shipped_configs(), *_GROUPS, POPULARITY]
            raise UserError(
                f"there is no system {name!r}; it is neither a configuration's file nor one of "
                f"{', '.join(known)}.{did_you_mean(name, known)}"
            ) from None
        row = Path(name).stem if Path(name).is_file() else name
        if not (found := load_baseline(path)):
            words = [f"{key}={_plain(value)}" for key, value in parameters.items()]
            config = load_config(path, [*overrides, *words])
            negatives = max(RECORDED, config.negatives.recorded)
            return System(row, "tower", config.dump(), negatives=negatives)
        base, given = found
    check_name("baseline", base, BASELINES)
    settings, arguments = {**given, **parameters}, BASELINES[base].arguments()
    for key in settings.keys() - set(arguments):
        raise UserError(f"{base} has no parameter {key!r}; it has {', '.join(arguments)}.")
    try:
        BASELINES[base](**settings)
    except (TypeError, ValueError) as error:  # before anything is fitted
        raise UserError(f"{base} with {settings}: {error}") from None
    seeded = "seed" in arguments
    return System(row, "baseline", base, settings, seeded)


def _swept(entry: str, files: Mapping[str, str], overrides: Sequence[str]) -> list[System]:
    """One system a value of a sweep.

    The values stand as in a YAML list, so `[300],[300,128]` are two.
    """
    from dssm_tf.systems import BASELINES

    target, _, text = entry.partition("=")
    known = [*files, *BASELINES, *shipped_configs()]
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
    if key == CLICKS and not {*values} <= {*SHARES}:
        raise UserError(f"--sweep {entry!r}: expected shares among {', '.join(SHARES)}.")
    found = []
    for value in values:
        set_ = {} if key == CLICKS else {key: value}
        system = _system(name, files, overrides, set_)
        row, inputs = f"{name}.{key}={_plain(value)}", SHARES[value] if key == CLICKS else INPUTS
        found.append(replace(system, name=row, sweep=(key, value), inputs=inputs))
    return found


def _plain(value: Any) -> str:
    """A value as YAML reads it back, without spaces.

    >>> _plain([300, 128]), _plain(0.5), _plain("tanh")
    ('[300,128]', '0.5', 'tanh')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
