"""Impressions and clicks of a log by query, title and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int, int, int, int]
"""Query and title (hashes or indices), position, impressions, clicks."""


@dataclass(frozen=True)
class ImpressionCounts:
    """Impressions and clicks, one cell per (query, title, position). All arrays are `(cells,)`.

    Args:
        query: index of the query, from 0.
        pair: index of the (query, title) pair, from 0; cells are sorted by it.
        position: position in the list, from 1.
        impressions: number of impressions, above 0.
        clicks: number of clicks, at most `impressions`.
    """

    query: NDArray[np.int64]
    pair: NDArray[np.int64]
    position: NDArray[np.int64]
    impressions: NDArray[np.float64]
    clicks: NDArray[np.float64]

    @classmethod
    def from_cells(cls, cells: Sequence[Cell] | NDArray[np.int64]) -> ImpressionCounts:
        """Builds the arrays from cells, sorted by pair; cells without an impression are dropped.

        Args:
            cells: `(cells, 5)`, each (query, title, position) at most once.
        """
        rows = np.array(cells, np.int64).reshape(-1, 5)
        rows = rows[rows[:, 3] > 0]
        rows = rows[np.lexsort(rows.T[[2, 1, 0]])]
        query = np.unique(rows[:, 0], return_inverse=True)[1].ravel()
        pair = np.unique(rows[:, :2], axis=0, return_inverse=True)[1].ravel()
        impressions = rows[:, 3].astype(np.float64)
        # Several clicks per impression count as one.
        return cls(query, pair, rows[:, 2], impressions, np.minimum(rows[:, 4], impressions))

    def up_to_position(self, last: int) -> ImpressionCounts:
        """The cells at positions 1 to `last`."""
        mask = self.position <= last
        return ImpressionCounts(
            np.unique(self.query[mask], return_inverse=True)[1].ravel(),
            np.unique(self.pair[mask], return_inverse=True)[1].ravel(),
            self.position[mask],
            self.impressions[mask],
            self.clicks[mask],
        )

    def sum_by_position(
        self, values: NDArray[np.floating], position_count: int
    ) -> NDArray[np.float64]:
        """Sums the values of the cells by position: `(positions,)`."""
        sums = np.bincount(self.position - 1, values, minlength=position_count)
        return sums[:position_count].astype(np.float64)

    @property
    def at_several_positions(self) -> NDArray[np.bool_]:
        """Mask of the cells whose pair was also displayed at another position, `(cells,)`."""
        return np.bincount(self.pair)[self.pair] > 1
