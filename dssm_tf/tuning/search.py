"""Parses the settings to try into Optuna's distributions, and makes configurations of them.

This module does not import TensorFlow, so errors in keys and values are reported at once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from dssm_tf.common.errors import UserError
from dssm_tf.common.plain_data import parse_yaml
from dssm_tf.config import Config, find_config, load_config

_RANGE = re.compile(r"(log:)?([-+.\de]+):([-+.\de]+)")
_EDGE = 0.05  # outer fraction of a range at both ends
_FIXED_KEYS = ("training.refit", "training.folds", "validation")
"""Keys that change how a trial is measured."""


@dataclass(frozen=True)
class Search:
    """A search: the configuration, the settings to try, and how trials are chosen and compared.

    Args:
        config: a YAML file, or the name of a shipped configuration.
        grid: `KEY=VALUES`, see `parse_space`.
        random: number of random settings.
        tpe: number of settings that Optuna's tree-structured Parzen estimator suggests, each from
            the results so far. If `random` and `tpe` are both None, all combinations are tried.
        seed: seed of the sampler.
        seeds: number of training runs per setting and log, each with another seed.
        overrides: `KEY=VALUE` settings of every trial.
        prune: whether to stop a trial whose first training run is worse than the median of the
            others.
    """

    config: str
    grid: Sequence[str]
    random: int | None = None
    tpe: int | None = None
    seed: int = 0
    seeds: int = 1
    overrides: Sequence[str] = ()
    prune: bool = False

    @cached_property
    def metric(self) -> str:
        """The metric that compares trials: `training.monitor`, or NDCG@10 if that is the loss.

        Losses are not comparable between trials with different loss functions or batches.
        """
        monitor = self.build_config().training.monitor
        return "ndcg@10" if monitor == "val_loss" else monitor

    @cached_property
    def space(self) -> dict[str, BaseDistribution]:
        """The distribution of each key."""
        return parse_space(self.grid)

    def build_config(self, *assignments: str) -> Config:
        """The configuration with `overrides` and further `KEY=VALUE` settings."""
        return load_config(find_config(self.config), [*self.overrides, *assignments])

    @cached_property
    def trial_overrides(self) -> list[str]:
        """The overrides of the training of trials, which the best configuration does not have."""
        return [text for text in self.overrides if text.startswith("training.")]

    def best_config(self, setting: Mapping[str, Any]) -> Config:
        """The configuration with a setting and with the overrides, except `trial_overrides`."""
        model_overrides = [text for text in self.overrides if text not in self.trial_overrides]
        return load_config(find_config(self.config), [*model_overrides, *format_settings(setting)])

    def edge_warnings(self, setting: Mapping[str, Any]) -> list[str]:
        """One warning per number at the edge of the values that were tried, except for 0.

        In a range, the outer 5 % are the edge.
        """
        lines = []
        for key, distribution in self.space.items():
            number, values = _number(setting[key]), _values(distribution)
            numbers = [value for value in map(_number, values) if value is not None]
            if number is None or len(numbers) < len(values) or len({*numbers}) < 2:
                continue
            low, high = min(numbers), max(numbers)
            position = (number - low) / (high - low)
            if getattr(distribution, "log", False):
                position = math.log(number / low) / math.log(high / low)
            margin = 0.0 if isinstance(distribution, CategoricalDistribution) else _EDGE
            side = "largest" if position >= 1 - margin else "smallest"
            if margin < position < 1 - margin or (side == "smallest" and low == 0):
                continue
            lines.append(
                f"WARNING: {format_settings({key: setting[key]})[0]} is at the edge of the values "
                f"that were tried, the {side}; values beyond it may be better."
            )
        return lines

    def trial_config(self, setting: Mapping[str, Any]) -> Config:
        """A trial's configuration. Refit is off because trials are compared on validation queries.

        Raises:
            UserError: a key or a value is not allowed.
        """
        assignments = format_settings(setting)
        try:
            config = self.build_config(*assignments)
        except UserError as error:
            raise UserError(f"--grid, at {' '.join(assignments)}: {error}") from None
        training = config.training.model_copy(update={"refit": False})
        return config.model_copy(update={"training": training})

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """All settings of a grid search, in order; for other searches, settings for `check`.

        The settings for `check` vary one key over its values, or over the bounds of its range; all
        other keys have their first value.
        """
        choices = {key: _values(distribution) for key, distribution in self.space.items()}
        if self.random or self.tpe:
            base = {key: values[0] for key, values in choices.items()}
            return [base | {key: value} for key, values in choices.items() for value in values]
        return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]

    def check(self) -> None:
        """Checks all keys and values before any training.

        Raises:
            UserError: a key or value is not allowed, or trials could not be compared.
        """
        blocked = dict.fromkeys(_FIXED_KEYS, "trials would not be comparable")
        blocked |= {"training.seed": "--seeds changes it"} if self.seeds > 1 else {}
        overridden = (override.partition("=")[0] for override in self.overrides)
        blocked |= dict.fromkeys(overridden, "--set gives its value")
        for key, values in self.space.items():
            for blocked_key, reason in blocked.items():
                if f"{key}.".startswith(f"{blocked_key}.") or f"{blocked_key}.".startswith(
                    f"{key}."
                ):
                    raise UserError(
                        f"--grid {key}: {blocked_key} cannot be tried, because {reason}."
                    )
            if not (self.random or self.tpe or isinstance(values, CategoricalDistribution)):
                raise UserError(f"--grid {key}: to draw from a range, add --random N or --tpe N.")
        for setting in self.settings:
            config = self.trial_config(setting)
            config.check_files()
            if self.prune and config.training.folds:
                raise UserError(
                    "--prune compares metrics after each epoch, but training.folds has none before "
                    "the last epoch; leave out --prune, or set training.folds=null."
                )


def parse_space(grid: Sequence[str]) -> dict[str, BaseDistribution]:
    """Parses `KEY=VALUE,VALUE,...`, `KEY=LOW:HIGH` and `KEY=log:LOW:HIGH`.

    Values are YAML, so `tower.widths=[300],[300,128]` works; Optuna stores them as JSON. A range
    whose bounds are integers is a range of integers.

    >>> parse_space(["loss.gamma=5,10", "tower.cells=32:96"])
    {'loss.gamma': CategoricalDistribution(choices=('5', '10')),
     'tower.cells': IntDistribution(high=96, log=False, low=32, step=1)}

    Raises:
        UserError: an entry is malformed.
    """
    space: dict[str, BaseDistribution] = {}
    for text in grid:
        key, _, values = text.partition("=")
        try:
            if not key:
                raise ValueError("the key is missing")
            if key in space:
                raise ValueError("the key is given twice")
            if match := _RANGE.fullmatch(values):
                log, low, high = bool(match[1]), json.loads(match[2]), json.loads(match[3])
                integers = isinstance(low, int) and isinstance(high, int)
                distribution = IntDistribution if integers else FloatDistribution
                space[key] = distribution(low, high, log=log)
            else:
                choices = parse_yaml(f"[{values}]")
                if re.search(r"\d:\d", values):  # YAML reads 5:20 as 320, in base 60
                    raise ValueError("a list cannot contain a range")
                space[key] = CategoricalDistribution([json.dumps(choice) for choice in choices])
        except (TypeError, ValueError) as error:
            raise UserError(
                f"--grid {text!r}: {error}; expected KEY=V1,V2,..., KEY=LOW:HIGH or "
                "KEY=log:LOW:HIGH, such as loss.gamma=5,10."
            ) from None
    return space


def format_settings(setting: Mapping[str, Any]) -> list[str]:
    """Formats a setting as `KEY=VALUE`; floats are rounded to three digits."""
    return [
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in setting.items()
    ]


def _values(distribution: BaseDistribution) -> list[Any]:
    """All choices of a list, or the bounds of a range."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    return [distribution.low, distribution.high]  # type: ignore[attr-defined]


def _number(value: Any) -> float | None:
    """A value of a setting as a number; None if it is something else."""
    if isinstance(value, str):  # choices are JSON
        value = json.loads(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
