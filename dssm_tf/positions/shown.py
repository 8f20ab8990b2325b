"""What a log says of titles at positions: how often each was shown there, and clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int, int, int, int]
"""Query and title (hashes or numbers), position, impressions, clicks."""


@dataclass(frozen=True)
class Shown:
    """Titles at positions, a cell each (query, title, position); all are `(cells,)`.

    Args:
        query: numbers from 0.
        pair: (query, title) pairs, numbers from 0, not decreasing.
        position: from 1.
        impressions: above 0.
        clicks: at most as many as impressions.
    """

    query: NDArray[np.int64]
    pair: NDArray[np.int64]
    position: NDArray[np.int64]
    impressions: NDArray[np.float64]
    clicks: NDArray[np.float64]

    @classmethod
    def of(cls, cells: Sequence[Cell] | NDArray[np.int64]) -> Shown:
        """Cells as arrays, in an order of their own; those without an impression are left out.

        Args:
            cells: each (query, title, position) once.
        """
        rows = np.array(cells, np.int64).reshape(-1, 5)
        rows = rows[rows[:, 3] > 0]
        rows = rows[np.lexsort(rows.T[[2, 1, 0]])]
        query = np.unique(rows[:, 0], return_inverse=True)[1].ravel()
        pair = np.unique(rows[:, :2], axis=0, return_inverse=True)[1].ravel()
        impressions = rows[:, 3].astype(np.float64)
        # A title that is shown once and clicked twice was attractive once.
        return cls(query, pair, rows[:, 2], impressions, np.minimum(rows[:, 4], impressions))

    def first(self, positions: int) -> Shown:
        """The cells at the first positions."""
        mask = self.position <= positions
        return Shown(
            np.unique(self.query[mask], return_inverse=True)[1].ravel(),
            np.unique(self.pair[mask], return_inverse=True)[1].ravel(),
            self.position[mask],
            self.impressions[mask],
            self.clicks[mask],
        )

    def at(self, values: NDArray[np.floating], positions: int) -> NDArray[np.float64]:
        """Sums of values of cells by position, `(positions,)`."""
        sums = np.bincount(self.position - 1, values, minlength=positions)
        return sums[:positions].astype(np.float64)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Whether each cell's pair stood at other positions too, `(cells,)`."""
        return np.bincount(self.pair)[self.pair] > 1
