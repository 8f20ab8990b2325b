"""The trials of a grid or of random draws, each a full configuration, before anything is trained.

Nothing here needs TensorFlow, so a mistyped key is an error at once.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import OptionError, UserError
from dssm_tf.config import Config, Refit, find_config, load_config
from dssm_tf.tuning.space import (
    Setting,
    grid_settings,
    grid_size,
    parse_space,
    random_settings,
)

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", "loss")
_REFIT = "training.refit"
_MONITOR = "training.monitor"
_SEED = "training.seed"
_MOST_TRIALS = 1000
_MOST_SEEDS = 100


@dataclass(frozen=True)
class Trial:
    """One setting of the tuned keys.

    Args:
        settings: dotted key -> value, as the configuration holds it.
        config: the whole configuration, without refit.
    """

    settings: Mapping[str, Any]
    config: Config

    def __str__(self) -> str:
        return " ".join(f"{key}={show(value)}" for key, value in self.settings.items())

    def seeded(self, number: int) -> Trial:
        """The same with the seed `number` above its own."""
        training = self.config.training
        training = training.model_copy(update={"seed": training.seed + number})
        return Trial(self.settings, self.config.model_copy(update={"training": training}))


@dataclass(frozen=True)
class Request:
    """What the user asked for, as on the command line.

    Args:
        config: a YAML file, or the name of a shipped one.
        grid: `KEY=VALUES`, see `parse_space`.
        random: how many random draws; None for the whole grid.
        seed: of the draws.
        metric: what chooses; None for the configuration's `training.monitor`.
        overrides: `key=value` settings of every trial.
        seeds: trainings of each setting on each log.
    """

    config: str
    grid: Sequence[str]
    random: int | None = None
    seed: int | None = None
    metric: str | None = None
    overrides: Sequence[str] = ()
    seeds: int = 1

    def command(self, data: Sequence[Path], out: Path) -> str:
        """The command line that asks for the same."""
        words = ["dssm", "tune", "--config", self.config]
        words += ["--data", *map(str, data), "--out", str(out)]
        words += [word for one in self.grid for word in ("--grid", one)]
        for name in ("random", "seed", "metric"):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name}", str(value)]
        words += [word for one in self.overrides for word in ("--set", one)]
        words += ["--seeds", str(self.seeds)] if self.seeds > 1 else []
        return shlex.join(words)


@dataclass(frozen=True)
class Plan:
    """What is going to be trained.

    Args:
        request: what was asked for.
        metric: what chooses, one of `METRICS`.
        trials: different from each other, in the order they are run.
        refit: `training.refit` of the chosen configuration.
    """

    request: Request
    metric: str
    trials: tuple[Trial, ...]
    refit: Refit


def show(value: Any) -> str:
    """A value as a person would type it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def make_plan(request: Request) -> Plan:
    """The trials of a request.

    Trials are run without refit, which would leave no records to compare them on; the epoch that a
    trial keeps is chosen by the same metric as the trial, unless `training.monitor` is set.

    Raises:
        UserError: a key or a value is not allowed, a file to learn from is not there, or the
            trials could not be compared.
    """
    space = parse_space(request.grid)
    path = find_config(request.config)
    _check(request, space)
    monitor = [f"{_MONITOR}={request.metric}"] if request.metric else []
    overrides = [*monitor, *request.overrides]
    base = load_config(path, overrides)
    metric = request.metric or base.training.monitor

    def trial(setting: Setting) -> Trial:
        words = [f"{key}={json.dumps(value, default=str)}" for key, value in setting.items()]
        try:
            config = load_config(path, [*overrides, *words, f"{_REFIT}=false"])
        except UserError as error:
            tried = " ".join(f"{key}={show(value)}" for key, value in setting.items())
            problem = error.problem if isinstance(error, OptionError) else error
            raise UserError(f"--grid, at {tried}: {problem}") from None
        return Trial({key: _value(config, key) for key in setting}, config)

    if request.random is None:
        if (size := grid_size(space)) > _MOST_TRIALS:
            raise UserError(
                f"--grid: {size:,} settings are more than {_MOST_TRIALS:,}; list fewer values, or "
                "draw some of them with --random N."
            )
        trials = _distinct(map(trial, grid_settings(space)), size)
    else:
        # A small space may hold fewer different settings than asked for.
        draws = islice(random_settings(space, request.seed or 0), 20 * request.random + 100)
        trials = _distinct(map(trial, draws), request.random)
    _check_comparable(trials, metric)
    for one in trials:
        one.config.check_files()
    return Plan(request, metric, trials, base.training.refit)


def _check(request: Request, space: Mapping[str, Any]) -> None:
    if not space:
        raise UserError("nothing to tune; give --grid KEY=VALUE,VALUE,...")
    if request.metric is not None and request.metric not in METRICS:
        raise UserError(
            f"--metric {request.metric!r} is not known; choose from {', '.join(METRICS)}."
        )
    if request.random is None and request.seed is not None:
        raise UserError("--seed is of random draws; add --random N, or leave it out.")
    if request.random is not None and not 1 <= request.random <= _MOST_TRIALS:
        raise UserError(
            f"--random {request.random}: expected a number of draws from 1 to {_MOST_TRIALS:,}."
        )
    if not 1 <= request.seeds <= _MOST_SEEDS:
        raise UserError(f"--seeds {request.seeds}: expected a number from 1 to {_MOST_SEEDS}.")
    if _SEED in space and request.seeds > 1:
        raise UserError(f"--grid {_SEED} and --seeds both change the seed; leave one of them out.")
    if _REFIT in space:
        raise UserError(
            f"--grid {_REFIT}: it cannot be tuned, since after it no validation records are left; "
            f"the trials run without it, and the chosen configuration keeps yours (--set {_REFIT}="
            "continue, true or false)."
        )
    for override in request.overrides:
        if (key := override.partition("=")[0]) in space:
            raise UserError(f"{key} is in --grid and in --set; leave it out of one.")


def _distinct(trials: Iterable[Trial], count: int) -> tuple[Trial, ...]:
    """The first `count` trials of different configurations."""
    found: dict[str, Trial] = {}
    for trial in trials:
        found.setdefault(trial.config.model_dump_json(), trial)
        if len(found) == count:
            break
    return tuple(found.values())


def _check_comparable(trials: Sequence[Trial], metric: str) -> None:
    configs = [trial.config for trial in trials]
    if any(config.validation != configs[0].validation for config in configs):
        raise UserError(
            "--grid validation: it says what the trials are compared on, so it cannot differ "
            "between them; set it for all with --set."
        )
    if any(config.training.folds != configs[0].training.folds for config in configs):
        raise UserError(
            "--grid training.folds: it says what the trials are compared on, so it cannot differ "
            "between them; set it for all with --set."
        )

    def titles_of_loss(config: Config) -> tuple[Any, ...]:
        training, negatives = config.training, config.negatives
        # In the batch, its size decides who the rivals are.
        batch = training.batch_size if negatives.in_batch else 0
        lengths = training.nested_lengths
        loss = config.loss.name, config.loss.arguments.get("margin")
        return loss, negatives, training.click_weight, lengths, batch

    if metric == "loss" and any(
        titles_of_loss(config) != titles_of_loss(configs[0]) for config in configs
    ):
        raise UserError(
            "--metric loss: the trials differ in loss.name or margin, negatives, "
            "training.click_weight or nested_lengths, or, with negatives in the batch, in "
            "training.batch_size, so their losses cannot be compared; choose an NDCG, e.g. "
            "--metric ndcg@10."
        )


def _value(config: Config, key: str) -> Any:
    value: Any = config.model_dump(mode="json")
    for part in key.split("."):
        value = value[part]
    return value
