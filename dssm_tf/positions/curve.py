"""The examination curve: how often each position of a list is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.tables import columns
from dssm_tf.tables.read import read
from dssm_tf.tables.writer import write_table

COLUMNS = ("position", "propensity")
_COLUMNS = (
    columns.count("position"),
    columns.number("propensity", 0, 1, above=True),
)
UNIT = 1000
"""Weighted clicks are summed in thousandths: whole numbers add up to the same in any order."""


@dataclass(frozen=True)
class ExaminationCurve:
    """Propensities: how often positions 1, 2, ... are looked at, relative to position 1.

    Args:
        propensities: of positions 1, 2, ..., each above 0 and at most 1.
        intervals: 95 % of each, `(low, high)`; empty where nothing was estimated.
        method: `harvesting`, or the file that it was read from.
        basis: what it rests on, in counts, by name.
        problem: why the log cannot tell; the curve is then 1 everywhere.
    """

    propensities: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...] = ()
    method: str = ""
    basis: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    def weights(self, most: float) -> tuple[int, ...]:
        """What a click at each position counts, in thousandths: clipped inverse propensities.

        Positions behind the last have the weight of the last.

        >>> ExaminationCurve((1.0, 0.5, 0.02)).weights(most=10)
        (1000, 2000, 10000)

        Args:
            most: the largest weight, which bounds the variance of a sum of few clicks.

        Reference: Joachims et al. 2017, "Unbiased Learning-to-Rank with Biased Feedback".
        """
        return tuple(round(UNIT * min(1 / one, most)) for one in self.propensities)

    def weight(self, positions: NDArray[np.int64], most: float) -> NDArray[np.int64]:
        """What clicks at some positions count, in thousandths; at position 0, which is unknown, 1.

        Args:
            positions: of the clicks.
            most: the largest weight.
        """
        weights = np.array([UNIT, *self.weights(most)])
        return weights[np.minimum(positions, len(self.propensities))]

    def in_words(self, most: float) -> str:
        """What clicks weigh, in a line."""
        if self.problem:
            return f"{self.problem}; every click counts once"
        weights = ", ".join(f"{one / UNIT:.2f}" for one in self.weights(most)[:10])
        return (
            f"clicks at positions 1, 2, ... weigh {weights} ({self.method}), and those without a "
            "position weigh 1; train with --set training.click_weight=linear"
        )

    def described(self, most: float) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "method": self.method,
            "basis": dict(self.basis),
            "problem": self.problem,
            "propensities": list(self.propensities),
            "intervals": [list(one) for one in self.intervals],
            "weights": [one / UNIT for one in self.weights(most)],
        }


def read_curve(path: Path | str) -> ExaminationCurve:
    """Reads a table with `position` and `propensity`, in any format.

    Propensities may be absolute: they are divided by that of position 1.

    Raises:
        UserError: naming file and line; the positions are not 1, 2, 3 and so on, a propensity is
            not above 0 and at most 1, or is larger than that of position 1, or there is no row.
    """
    rows = read(path, _COLUMNS)
    found: list[float] = []
    for position, propensity, line in rows.iter_rows():
        if position != len(found) + 1:
            raise UserError(
                f"{path}:{line} has position {position}; expected {len(found) + 1}: positions "
                "start at 1 without gaps."
            )
        if found and propensity > found[0]:
            raise UserError(
                f"{path}:{line} has propensity {propensity:g}; expected at most that of position "
                f"1, {found[0]:g}."
            )
        found.append(propensity)
    if not found:
        raise UserError(f"{path} has a header but no rows; expected one position per row.")
    return ExaminationCurve(tuple(one / found[0] for one in found), method=str(path))


def write_curve(path: Path | str, curve: ExaminationCurve) -> None:
    """Writes a table that `read_curve` reads, with the intervals where there are any."""
    columns = (*COLUMNS, "low", "high") if curve.intervals else COLUMNS
    rows = []
    for index, propensity in enumerate(curve.propensities):
        values = [propensity, *curve.intervals[index]] if curve.intervals else [propensity]
        rows.append((str(index + 1), *(f"{value:.6g}" for value in values)))
    write_table(path, columns, rows)
