"""What is tried: settings as a person types them, as Optuna's distributions and configurations.

Nothing here needs TensorFlow, so a mistyped key is an error at once.
"""

from __future__ import annotations

import json
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
_COMPARED_ON = ("training.refit", "training.folds", "validation")


@dataclass(frozen=True)
class Search:
    """What to try, and what decides.

    Args:
        config: a YAML file, or the name of a shipped one.
        grid: `KEY=VALUES`, see `parse_space`.
        random: how many settings to draw at random.
        tpe: how many settings Optuna's tree-structured Parzen estimator suggests, each by the
            results so far; with neither, all combinations are tried.
        seed: of the draws.
        seeds: training runs of each setting on each log.
        overrides: `KEY=VALUE` settings of every trial.
        prune: whether a setting whose first training run is behind the median of the others is
            given up.
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
    def measure(self) -> str:
        """The metric that decides: `training.monitor`; NDCG@10 if that is the loss.

        Trials with other losses or other batches cannot be compared by it.
        """
        monitor = self.load().training.monitor
        return "ndcg@10" if monitor == "loss" else monitor

    @cached_property
    def space(self) -> dict[str, BaseDistribution]:
        """What is tried of each key."""
        return parse_space(self.grid)

    def load(self, *more: str) -> Config:
        """The configuration with further overrides."""
        return load_config(find_config(self.config), [*self.overrides, *more])

    def trial(self, setting: Mapping[str, Any]) -> Config:
        """A trial's configuration, without refit, which would leave nothing to compare trials on.

        Raises:
            UserError: a key or a value is not allowed.
        """
        words = typed(setting)
        try:
            config = self.load(*words)
        except UserError as error:
            raise UserError(f"--grid, at {' '.join(words)}: {error}") from None
        training = config.training.model_copy(update={"refit": False})
        return config.model_copy(update={"training": training})

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """All settings of a grid, in order; else the values or ends of each key beside others'."""
        values = {key: _values(one) for key, one in self.space.items()}
        if self.random or self.tpe:
            first = {key: one[0] for key, one in values.items()}
            return [first | {key: value} for key, one in values.items() for value in one]
        return [dict(zip(values, one, strict=True)) for one in product(*values.values())]

    def check(self) -> None:
        """Refuses what cannot be tried or compared, before anything is trained.

        Raises:
            UserError: saying which.
        """
        blocked = dict.fromkeys(_COMPARED_ON, "trials are compared on it")
        blocked |= {"training.seed": "--seeds changes it"} if self.seeds > 1 else {}
        blocked |= {one.partition("=")[0]: "--set gives its value" for one in self.overrides}
        for key, values in self.space.items():
            for other, why in blocked.items():
                if f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}."):
                    raise UserError(f"--grid {key}: {other} cannot be tried, because {why}.")
            if not (self.random or self.tpe or isinstance(values, CategoricalDistribution)):
                raise UserError(f"--grid {key}: to draw from a range, add --random N or --tpe N.")
        for setting in self.settings:
            config = self.trial(setting)
            config.check_files()
            if self.prune and config.training.folds:
                raise UserError(
                    "--prune compares trials after each epoch, and training.folds measures nothing "
                    "before its last one; leave out --prune, or set training.folds=null."
                )


def parse_space(grid: Sequence[str]) -> dict[str, BaseDistribution]:
    """Reads `KEY=VALUE,VALUE,...`, `KEY=LOW:HIGH` and `KEY=log:LOW:HIGH`.

    Values are YAML, so `tower.widths=[300],[300,128]` works; Optuna holds them as JSON. A range
    whose ends are whole numbers means whole numbers.

    >>> parse_space(["loss.gamma=5,10", "tower.cells=32:96"])
    {'loss.gamma': CategoricalDistribution(choices=('5', '10')),
     'tower.cells': IntDistribution(high=96, log=False, low=32, step=1)}

    Raises:
        UserError: saying what was received and what is expected.
    """
    space: dict[str, BaseDistribution] = {}
    for text in grid:
        key, _, values = text.partition("=")
        try:
            if key in space or not key:
                raise ValueError("each key once")
            if found := _RANGE.fullmatch(values):
                log, low, high = bool(found[1]), json.loads(found[2]), json.loads(found[3])
                whole = isinstance(low, int) and isinstance(high, int)
                kind = IntDistribution if whole else FloatDistribution
                space[key] = kind(low, high, log=log)
            else:
                choices = parse_yaml(f"[{values}]")
                if re.search(r"\d:\d", values):  # YAML reads 5:20 as 320, in base 60
                    raise ValueError("either one range or a list")
                space[key] = CategoricalDistribution([json.dumps(one) for one in choices])
        except (TypeError, ValueError) as error:
            raise UserError(
                f"--grid {text!r}: {error}; expected KEY=V1,V2,..., KEY=LOW:HIGH or "
                "KEY=log:LOW:HIGH, such as loss.gamma=5,10."
            ) from None
    return space


def typed(setting: Mapping[str, Any]) -> list[str]:
    """`KEY=VALUE`, numbers drawn from a range cut to three digits."""
    return [
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in setting.items()
    ]


def _values(one: BaseDistribution) -> list[Any]:
    if isinstance(one, CategoricalDistribution):
        return list(one.choices)
    return [one.low, one.high]  # type: ignore[attr-defined]
