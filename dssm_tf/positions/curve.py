"""The examination curve: the probability that a user examines each position of a list."""

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
_PARSERS = (
    columns.count("position"),
    columns.number("propensity", 0, 1, exclude_minimum=True),
)
CLICK_WEIGHT_SCALE = 1000
"""Weights are integers in thousandths, so that their sum does not depend on the order."""


@dataclass(frozen=True)
class ExaminationCurve:
    """Propensities: how often positions 1, 2, ... are examined, relative to position 1.

    Args:
        propensities: propensities of positions 1, 2, ..., each above 0 and at most 1.
        intervals: 95 % interval of each propensity, `(low, high)`; empty if the curve was not
            estimated.
        method: `harvesting`, or the file that the curve was read from.
        basis: counts of the data used for the estimate, by name.
        problem: why the log does not allow an estimate; the curve is then 1 everywhere.
    """

    propensities: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...] = ()
    method: str = ""
    basis: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    def weights(self, max_weight: float) -> tuple[int, ...]:
        """The weights of positions 1, 2, ..., in thousandths: clipped inverse propensities.

        Positions after the last one have the weight of the last one.

        >>> ExaminationCurve((1.0, 0.5, 0.02)).weights(max_weight=10)
        (1000, 2000, 10000)

        Args:
            max_weight: the largest weight. It bounds the variance of a sum of few clicks.

        Reference: Joachims et al. 2017, "Unbiased Learning-to-Rank with Biased Feedback".
        """
        return tuple(
            round(CLICK_WEIGHT_SCALE * min(1 / propensity, max_weight))
            for propensity in self.propensities
        )

    def click_weights(self, positions: NDArray[np.int64], max_weight: float) -> NDArray[np.int64]:
        """The weight of each click by its position, in thousandths.

        Args:
            positions: positions of clicks, `(clicks,)`; 0 is an unknown position, of weight 1.
            max_weight: the largest weight.
        """
        weights = np.array([CLICK_WEIGHT_SCALE, *self.weights(max_weight)])
        return weights[np.minimum(positions, len(self.propensities))]

    def summary(self, max_weight: float) -> str:
        """The weights of clicks in one line."""
        if self.problem:
            return f"{self.problem}; every click counts once"
        weights = ", ".join(
            f"{weight / CLICK_WEIGHT_SCALE:.2f}" for weight in self.weights(max_weight)[:10]
        )
        return (
            f"clicks at positions 1, 2, ... have weights {weights} ({self.method}); clicks "
            "without a position have weight 1"
        )

    def to_dict(self, max_weight: float) -> dict[str, Any]:
        """The curve and its weights as plain data for JSON."""
        return {
            "method": self.method,
            "basis": dict(self.basis),
            "problem": self.problem,
            "propensities": list(self.propensities),
            "intervals": [list(interval) for interval in self.intervals],
            "weights": [weight / CLICK_WEIGHT_SCALE for weight in self.weights(max_weight)],
        }


def read_curve(path: Path | str) -> ExaminationCurve:
    """Reads a table with `position` and `propensity`, in any format.

    Propensities may be absolute: they are divided by that of position 1.

    Raises:
        UserError: the positions are not 1, 2, 3 and so on, a propensity is not above 0, above 1 or
            above that of position 1, or there is no row. The message has file and line.
    """
    rows = read(path, _PARSERS)
    propensities: list[float] = []
    for position, propensity, line in rows.iter_rows():
        if position != len(propensities) + 1:
            raise UserError(
                f"{path}:{line} has position {position}; expected {len(propensities) + 1}: "
                "positions start at 1 without gaps."
            )
        if propensities and propensity > propensities[0]:
            raise UserError(
                f"{path}:{line} has propensity {propensity:g}; expected at most that of position "
                f"1, {propensities[0]:g}."
            )
        propensities.append(propensity)
    if not propensities:
        raise UserError(f"{path} has a header but no rows; expected one position per row.")
    return ExaminationCurve(
        tuple(value / propensities[0] for value in propensities), method=str(path)
    )


def write_curve(path: Path | str, curve: ExaminationCurve) -> None:
    """Writes a table that `read_curve` reads, with the intervals where there are any."""
    names = (*COLUMNS, "low", "high") if curve.intervals else COLUMNS
    rows = []
    for index, propensity in enumerate(curve.propensities):
        values = [propensity, *curve.intervals[index]] if curve.intervals else [propensity]
        rows.append((str(index + 1), *(f"{value:.6g}" for value in values)))
    write_table(path, names, rows)
