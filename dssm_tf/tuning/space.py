"""What is tuned: `KEY=VALUES` as a person types it, and the settings that follow from it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.plain_data import parse_yaml

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"(log:)?({_NUMBER}):({_NUMBER})")
# YAML reads 5:20 as 320, in base 60; nobody means that.
_HIDDEN_RANGE = re.compile(r"\d:[\d.+-]|\blog:")
_EXAMPLE = "e.g. loss.gamma=5,10,15"
_DIGITS = 3


@dataclass(frozen=True)
class Values:
    """Values to choose from, in the order given."""

    values: tuple[Any, ...]

    def pick(self, share: float) -> Any:
        """The value that lies `share`, from 0 to just below 1, along the list."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included.

    Args:
        low: the smallest.
        high: the largest.
        log: whether each ratio is as likely as another, instead of each difference.
        whole: whether only whole numbers are meant.
    """

    low: float
    high: float
    log: bool
    whole: bool

    def pick(self, share: float) -> float:
        """The number that lies `share`, from 0 to just below 1, along the range.

        Fractions are cut to three significant digits, so that a person can type them again.
        """
        # A whole number stands for all from itself to just below the next one.
        start, end = self.low, self.high + self.whole
        if self.log:
            found = math.exp(math.log(start) + share * (math.log(end) - math.log(start)))
        else:
            found = start + share * (end - start)
        found = math.floor(found) if self.whole else float(f"{found:.{_DIGITS}g}")
        return min(max(found, self.low), self.high)


Space = Mapping[str, Values | Range]
Setting = dict[str, Any]


def parse_space(grid: Sequence[str]) -> dict[str, Values | Range]:
    """Reads `KEY=VALUE,VALUE,...`, `KEY=LOW:HIGH` and `KEY=log:LOW:HIGH`.

    Values are YAML, so `tower.widths=[300],[300,128]` and `optimizer.clip_norm=null,1` work. A
    range whose ends are whole numbers means whole numbers.

    >>> parse_space(["loss.gamma=5,10", "tower.cells=32:96"])["loss.gamma"].values
    (5, 10)

    Raises:
        UserError: saying what was received and what is expected.
    """
    space: dict[str, Values | Range] = {}
    for text in grid:
        key, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UserError(f"--grid {text!r}: expected KEY=VALUE,VALUE,..., {_EXAMPLE}.")
        if key in space:
            raise UserError(f"--grid {text!r}: {key} was given before; put its values in one list.")
        space[key] = _parse_range(text, values) or _parse_values(text, values)
    return space


def _parse_range(text: str, values: str) -> Range | None:
    match = _RANGE.fullmatch(values)
    if match is None:
        if _HIDDEN_RANGE.search(values):
            raise UserError(
                f"--grid {text!r}: expected one range, LOW:HIGH or log:LOW:HIGH, or a list of "
                "values, not both."
            )
        return None
    log, low, high = bool(match[1]), float(match[2]), float(match[3])
    whole = all(re.fullmatch(r"[+-]?\d+", end) for end in (match[2], match[3]))
    if not low < high or math.isinf(high):
        raise UserError(f"--grid {text!r}: the range must go from a smaller to a larger number.")
    if log and low <= 0:
        raise UserError(f"--grid {text!r}: a range in logarithms must start above 0.")
    return Range(int(low) if whole else low, int(high) if whole else high, log, whole)


def _parse_values(text: str, values: str) -> Values:
    try:
        found = parse_yaml(f"[{values}]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not found:
        raise UserError(f"--grid {text!r}: expected one or more YAML values, {_EXAMPLE}.")
    return Values(tuple(found))


def grid_size(space: Space) -> int:
    """How many settings the grid has.

    Raises:
        UserError: there is a range, which has no end of values.
    """
    for key, values in space.items():
        if isinstance(values, Range):
            raise UserError(
                f"--grid {key}: a range is for random search; add --random N, or list the values."
            )
    return math.prod(len(values.values) for values in space.values() if isinstance(values, Values))


def grid_settings(space: Space) -> Iterator[Setting]:
    """Every combination, the last key changing fastest."""
    lists = [values.values for values in space.values() if isinstance(values, Values)]
    for values in product(*lists):
        yield dict(zip(space, values, strict=True))


def random_settings(space: Space, seed: int) -> Iterator[Setting]:
    """Draws without end; the first N of a seed are the same whatever N is.

    The order in which the keys were given does not matter.
    """
    random = Random(seed)
    while True:
        drawn = {key: space[key].pick(random.random()) for key in sorted(space)}
        yield {key: drawn[key] for key in space}
