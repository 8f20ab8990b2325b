"""YAML to a validated, frozen configuration of one model and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from dssm_tf.common.errors import UserError, did_you_mean
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.common.sections import (
    AboveZero,
    Lengths,
    Named,
    Positive,
    Section,
    Seed,
    Share,
    Whole,
)
from dssm_tf.losses import GRADED_LOSSES, LOSSES
from dssm_tf.towers import TOWERS

_BASELINE = "baseline"
"""The key of a file that configures a baseline, where others have `tower`."""


class NegativesConfig(Section):
    """Which titles a click is compared with.

    `recorded` negatives a query from the records (J), `fresh` ones drawn from all titles
    anew in each epoch, `in_batch` the batch's other clicked titles.

    `mined` hard ones in each epoch, of those that `mined_from` lists, what `dssm mine` wrote.
    """

    recorded: Annotated[Whole, Field(ge=0)] = 0
    fresh: Annotated[Whole, Field(ge=0)] = 0
    in_batch: bool = True
    mined: Annotated[Whole, Field(ge=0)] = 0
    mined_from: str | None = None

    @model_validator(mode="after")
    def _mined(self) -> NegativesConfig:
        if (self.mined_from is not None) != (self.mined > 0):
            raise PydanticCustomError(
                "mined",
                "mined, how many a query, and mined_from, the table that lists them, belong "
                "together; set both or none",
            )
        return self


class OptimizerConfig(Section):
    """`nesterov` is the paper's (P16 algorithm 1); other names are Keras optimizers."""

    name: str = "adam"
    learning_rate: AboveZero = 0.001
    clip_norm: AboveZero | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class TrainingConfig(Section):
    """How long, how large, and when to stop.

    `averaging` is the momentum of a moving average of the weights, which is then what is
    validated and kept; `folds`, at least 2, are trainings before the one that counts: each holds
    other queries out, and the best epoch by the mean over all queries is for how long that one
    trains, on all records; `clicks: false` leaves the log's clicks out, for what is learned from
    judgments or a teacher alone; `title_queries` adds so many titles a click as queries for
    themselves, by two to four of their words; `typos` is the share of the queries, others in each
    pass, whose longest word is misspelt; `idf_start` begins with a first matrix whose rows are
    longer the rarer their trigram is; `refit` trains on training and validation part together in
    the end: from the best epoch's weights with a fresh optimizer for two thirds as many epochs,
    rounded up. `precision` is that of
    the steps; weights, and all that ranks, are float32. A killed run goes on from the last epoch,
    or the last of every `save_every` steps. With `nested_lengths` vectors rank cut to each of these
    lengths, too (Matryoshka).
    """

    epochs: Positive = 30
    batch_size: Positive = 256
    patience: Positive = 5
    monitor: Literal["ndcg@1", "ndcg@3", "ndcg@10", "loss"] = "ndcg@10"
    folds: Annotated[Whole, Field(ge=2)] | None = None
    averaging: Share = 0.0
    clicks: bool = True
    title_queries: Annotated[float, Field(ge=0)] = 0
    typos: Share = 0.0
    idf_start: bool = False
    refit: bool = False
    click_weight: Literal["none", "log", "linear"] = "none"
    save_every: Positive = 1_000
    nested_lengths: Lengths = ()
    seed: Seed = 0
    xla: bool | Literal["auto"] = "auto"
    precision: Literal["float32", "mixed_bfloat16"] = "float32"


_GradedLoss = Annotated[SerializeAsAny[Named], BeforeValidator(GRADED_LOSSES.parse)]


class ListsConfig(Section):
    """A file of lists to learn from: titles of a query, each with a number.

    `file` is the table and `sha256` what it must be, put there when training begins; `weight` is
    that of a step on it beside one on clicks; `batch_size` queries are a step, of longer lists than
    `titles` several are made; `validation` is the share of the queries held out that the
    log does not have; of those it has, the ones of its validation part are.
    """

    file: Annotated[str, Field(min_length=1)]
    loss: _GradedLoss
    sha256: str = ""
    weight: AboveZero = 1.0
    batch_size: Positive = 64
    titles: Annotated[Whole, Field(ge=2)] = 64
    validation: Share = 0.1


class JudgmentsConfig(ListsConfig):
    """Grades, from 0 to `max_grade`: the columns query, title, grade."""

    loss: _GradedLoss = GRADED_LOSSES.parse({"name": "listwise_softmax"})
    max_grade: Annotated[float, Field(gt=0, le=100)] = 4.0


class TeacherConfig(ListsConfig):
    """Scores of any other model: the columns query, title, score."""

    loss: _GradedLoss = GRADED_LOSSES.parse({"name": "kl"})


class RankingConfig(Section):
    """Weight of a title's log share of clicks in the score; `auto` picks it on validation.

    `earlier_clicks` is the share of the clicks that a run counted which still count in the prior
    of a training that goes on from it.
    """

    prior: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    earlier_clicks: Annotated[float, Field(ge=0, le=1)] = 1.0


class ValidationConfig(Section):
    """How much of the validation part is ranked after each epoch.

    At most so many `queries` rank all titles, or a random sample of so many `titles`.
    """

    queries: Positive = 2_000
    titles: Positive = 200_000


class Config(Section):
    """One model and how it is trained.

    With `whole_words` each word that log and corpus hold twice has a row in the first matrix beside
    its trigrams'; other words have their trigrams alone, as in the papers.
    """

    tower: Annotated[SerializeAsAny[Named], BeforeValidator(TOWERS.parse)]
    shared_towers: bool = False
    whole_words: bool = False
    loss: Annotated[SerializeAsAny[Named], BeforeValidator(LOSSES.parse)] = LOSSES.parse({})
    judgments: JudgmentsConfig | None = None
    teacher: TeacherConfig | None = None
    negatives: NegativesConfig = NegativesConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    ranking: RankingConfig = RankingConfig()
    validation: ValidationConfig = ValidationConfig()

    def dump(self) -> str:
        """The configuration as YAML, every value spelled out."""
        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        return text

    @property
    def lists(self) -> dict[str, ListsConfig]:
        """The sections that name a file of lists to learn from."""
        named = {"judgments": self.judgments, "teacher": self.teacher}
        return {name: section for name, section in named.items() if section is not None}

    def check_files(self) -> None:
        """Raises UserError where a file to learn from is not there."""
        for name, section in self.lists.items():
            if not Path(section.file).is_file():
                raise UserError(f"{name}.file: there is no file {section.file}.")


def config_directories() -> tuple[Path, ...]:
    """Where shipped configurations lie: in an installation, and in a checkout."""
    package = Path(__file__).parent
    return package / "configs", package.parent / "configs"


def find_config(name: str) -> Path:
    """The file of a configuration: a path, or the name of a shipped one, such as `lstm`.

    Raises:
        UserError: there is none; the shipped names are listed.
    """
    if Path(name).is_file():
        return Path(name)
    shipped: dict[str, Path] = {}
    for directory in config_directories():
        for path in sorted(directory.glob("**/*.yaml")):
            shipped.setdefault(str(path.relative_to(directory).with_suffix("")), path)
    if name in shipped:
        return shipped[name]
    raise UserError(
        f"{name} is neither a file nor a configuration that comes with the package; those are "
        f"{', '.join(shipped) or 'none'}.{did_you_mean(name, shipped)}"
    )


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file and applies dotted overrides such as `training.epochs=5`.

    Raises:
        UserError: the file or an override is wrong; names the key, what was received and what is
            allowed.
    """
    raw = _read(path)
    if _BASELINE in raw:
        raise UserError(
            f"{path} configures a baseline, which `dssm benchmark` fits: dssm "
            f"benchmark --systems bm25,mine={path} ..."
        )
    changed = deepcopy(raw)
    for override in overrides:
        _apply(changed, override)
    try:
        return Config.model_validate(changed)
    except ValidationError as error:
        if overrides:
            parse_config(raw, str(path))  # which raises where the file itself is wrong
            raise _explain_override(error, raw, overrides) from None
        raise UserError(f"{path}: {_explain(error)}") from None


def load_baseline(path: Path) -> tuple[str, dict[str, Any]] | None:
    """The name and the parameters of a baseline that a file configures, None for other files.

    Such a file holds `baseline:` with a `name` of `BASELINES` and arguments of its constructor.

    Raises:
        UserError: the file is no YAML, or holds anything else beside that.
    """
    raw = _read(path)
    if _BASELINE not in raw:
        return None
    chosen = raw[_BASELINE]
    if set(raw) != {_BASELINE} or not isinstance(chosen, dict) or "name" not in chosen:
        raise UserError(f"{path}: expected only `baseline:`, with its `name` and parameters.")
    return str(chosen["name"]), {key: value for key, value in chosen.items() if key != "name"}


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = parse_yaml(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; give a configuration, such as "
            "configs/lstm.yaml."
        ) from None
    except ValueError as error:  # UnicodeDecodeError is one
        raise UserError(f"{path} is not YAML: {error}") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path} holds a {type(raw).__name__}; expected keys such as `tower:`.")
    return raw


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
        if target.get(parent) is None:  # no such key, or one with nothing below it
            target[parent] = {}
        target = target[parent]
        if not isinstance(target, dict):
            raise UserError(f"--set {override!r}: {parent} is a value and has no keys below it.")
    try:
        target[last] = parse_yaml(value)
    except ValueError:
        raise UserError(f"--set {override!r}: {value!r} is not a YAML value.") from None


def _explain_override(
    error: ValidationError, raw: Mapping[str, Any], overrides: Sequence[str]
) -> UserError:
    """The first problem, blamed on the overrides; the file alone is right."""
    text, first = _explain(error), error.errors()[0]
    section = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "unknown_key" and first["ctx"]["key"] in (raw.get(section) or ()):
        text += (
            f" The file has it; replace the whole section, as in --set '{section}={{name: ...}}'."
        )
    return UserError(f"{' '.join(f'--set {one}' for one in overrides)}: {text}")


def _explain(error: ValidationError) -> str:
    """The first problem in one line; the number of further ones."""
    problems = error.errors()
    first, keys = problems[0], [_key(problem["loc"]) for problem in problems]
    # A value that fits none of several types is one problem, reported once a type.
    same = [problem["msg"] for problem, key in zip(problems, keys, strict=True) if key == keys[0]]
    more = len(set(keys)) - 1
    received = repr(first["input"])
    received = received if len(received) <= 60 else received[:57] + "..."
    if first["type"] == "unknown_key":
        text = f"{f'{keys[0]}.' if keys[0] else ''}{first['msg']}."
        text += did_you_mean(first["ctx"]["key"], first["ctx"]["keys"].split(", "))
    elif first["type"] == "no_line":
        name = first["input"].get("name")
        text = f"{keys[0]}.{first['msg']}; received {repr(name) if name else received}."
        text += did_you_mean(name, first["ctx"]["names"].split(", "))
    elif first["type"] == "missing":
        example = "; expected, e.g., `tower: {name: lstm}`" if keys[0] == "tower" else ""
        text = f"{keys[0]} is missing{example}."
    else:
        messages = dict.fromkeys(message[0].lower() + message[1:] for message in same)
        text = f"{keys[0]}: {', or '.join(messages)}; received {received}."
    return text + (f" ({more} more problem{'s' if more > 1 else ''})" if more else "")


def _key(location: tuple[int | str, ...]) -> str:
    """The dotted key of a problem: section, key, places in a list; no names of pydantic's types."""
    return ".".join(str(step) for i, step in enumerate(location) if i < 2 or isinstance(step, int))
