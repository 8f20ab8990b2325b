"""YAML to a validated, frozen configuration of one model and how it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dssm_tf.errors import UserError

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TowerConfig(Section):
    """What every tower takes."""

    dropout: Share = 0.0
    ngram_dropout: Share = 0.0
    initializer: str = "glorot_uniform"


class DSSMConfig(TowerConfig):
    """`dssm_tf.towers.DSSM`."""

    name: Literal["dssm"]
    widths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (300, 300, 128)


class LSTMConfig(TowerConfig):
    """`dssm_tf.towers.LSTMRNN`."""

    name: Literal["lstm"]
    cells: Positive = 96
    peepholes: bool = True
    forget_gate: bool = True
    forget_bias: float = 1.0


class NegativesConfig(Section):
    """Which titles a click is compared with.

    `recorded` negatives a query from the records (J), `in_batch` the batch's other clicked
    titles, `logq` the strength of the correction for how often each is drawn.
    """

    recorded: Annotated[int, Field(ge=0)] = 0
    in_batch: bool = True
    logq: Annotated[float, Field(ge=0, le=1)] = 0.0


class OptimizerConfig(Section):
    """`nesterov` is the paper's (P16 algorithm 1); other names are Keras optimizers."""

    name: str = "adam"
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class TrainingConfig(Section):
    """How long, how large, and when to stop.

    `averaging` is the momentum of a moving average of the weights, which is then what is
    validated and kept; `title_queries` adds each title as a query for itself; `refit` trains
    again on training and validation part together, for the best number of epochs.
    """

    epochs: Positive = 30
    batch_size: Positive = 256
    patience: Positive = 5
    monitor: Literal["ndcg@1", "ndcg@3", "ndcg@10", "loss"] = "ndcg@10"
    averaging: Share = 0.0
    title_queries: bool = False
    refit: bool = False
    click_weight: Literal["none", "log", "linear"] = "none"
    length_buckets: tuple[Positive, ...] = ()
    shuffle_buffer: Positive = 200_000
    seed: int = 0
    xla: bool | Literal["auto"] = "auto"
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"


class RankingConfig(Section):
    """Weight of a title's log share of clicks in the score; `auto` picks it on validation."""

    prior: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"


class ValidationConfig(Section):
    """How much of the validation part is ranked after each epoch."""

    queries: Positive = 2_000
    titles: Positive = 20_000


class Config(Section):
    """One model and how it is trained."""

    tower: Annotated[DSSMConfig | LSTMConfig, Field(discriminator="name")]
    shared_towers: bool = False
    gamma: Annotated[float, Field(gt=0)] = 10.0
    negatives: NegativesConfig = NegativesConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    ranking: RankingConfig = RankingConfig()
    validation: ValidationConfig = ValidationConfig()

    def dump(self) -> str:
        """The configuration as YAML, every value spelled out."""
        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        return text


def config_directories() -> tuple[Path, ...]:
    """Where shipped configurations lie: in an installation, and in a checkout."""
    package = Path(__file__).parent
    return package / "configs", package.parent / "configs"


def find_config(name: str) -> Path:
    """The file of a configuration: a path, or the name of a shipped one, such as `lstm`.

    Raises:
        UserError: there is none; the shipped names are listed.
    """
    if Path(name).exists():
        return Path(name)
    shipped: dict[str, Path] = {}
    for directory in config_directories():
        for path in sorted(directory.glob("**/*.yaml")):
            shipped.setdefault(str(path.relative_to(directory).with_suffix("")), path)
    if name in shipped:
        return shipped[name]
    raise UserError(
        f"{name} is neither a file nor a configuration that comes with the package; those are "
        f"{', '.join(shipped) or 'none'}."
    )


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file and applies dotted overrides such as `training.epochs=5`.

    Raises:
        UserError: naming the key, what was received and what is allowed.
    """
    try:
        raw = yaml.safe_load(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist; give a configuration, e.g. configs/lstm.yaml."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path} holds a {type(raw).__name__}; expected keys such as `tower:`.")
    for override in overrides:
        _apply(raw, override)
    return parse_config(raw, str(path))


def parse_config(raw: dict[str, Any], source: str = "configuration") -> Config:
    """A configuration from plain data.

    Raises:
        UserError: naming the key, what was received and what is allowed.
    """
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{source}: {_explain(error)}") from None


def _apply(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r}: expected KEY=VALUE, e.g. training.epochs=5.")
    *parents, last = key.split(".")
    target = raw
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise UserError(f"--set {override!r}: {parent} is a value, it has no keys below it.")
    try:
        target[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        raise UserError(f"--set {override!r}: {value!r} is not a YAML value.") from None


def _explain(error: ValidationError) -> str:
    """The first problem in one line; the number of further ones."""
    problems = error.errors()
    first = problems[0]
    steps = [str(step) for step in first["loc"] if step not in _TOWER_NAMES]
    key = ".".join(steps) or "the top level"
    received = repr(first["input"])
    received = received if len(received) <= 60 else received[:57] + "..."
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(_keys_beside(first["loc"]))
        text = f"{key} is not a key; allowed here: {allowed}."
    elif first["type"] == "missing":
        text = f"{key} is missing."
    elif first["type"].startswith("union_tag"):
        text = f"{key}.name must be one of {', '.join(_TOWER_NAMES)}; received {received}."
    else:
        message = first["msg"][0].lower() + first["msg"][1:]
        text = f"{key}: {message}; received {received}."
    more = len(problems) - 1
    return text + (f" ({more} more problem{'s' if more > 1 else ''})" if more else "")


_TOWER_CONFIGS: dict[str, type[TowerConfig]] = {"dssm": DSSMConfig, "lstm": LSTMConfig}
_TOWER_NAMES = tuple(_TOWER_CONFIGS)


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    section: type[BaseModel] = Config
    for step in location[:-1]:
        if step in _TOWER_CONFIGS:
            section = _TOWER_CONFIGS[str(step)]
        elif step != "tower":
            annotation = section.model_fields[str(step)].annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                section = annotation
    return list(section.model_fields)
