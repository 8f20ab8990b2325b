"""What a log says of titles at positions: how often each was shown there, and clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUPS = 5
"""Of pairs by the share of the query's words that the title has, see `word_group`."""

Cell = tuple[int, int, int, int, int, int]
"""Query and pair (hashes or numbers), the pair's group, position, impressions, clicks."""


@dataclass(frozen=True)
class Shown:
    """Titles at positions, a cell each (query, title, position); all are `(cells,)`.

    Args:
        query: numbers from 0.
        pair: (query, title) pairs, numbers from 0, not decreasing.
        group: of the pair, from 0; pairs of one group are alike as far as their texts say.
        position: from 1.
        impressions: above 0.
        clicks: at most as many as impressions.
    """

    query: NDArray[np.int64]
    pair: NDArray[np.int64]
    group: NDArray[np.int64]
    position: NDArray[np.int64]
    impressions: NDArray[np.float64]
    clicks: NDArray[np.float64]

    @classmethod
    def of(cls, cells: Sequence[Cell] | NDArray[np.int64]) -> Shown:
        """Cells as arrays, in an order of their own; those without an impression are left out.

        Args:
            cells: each (query, title, position) once.
        """
        rows = np.array(cells, np.int64).reshape(-1, 6)
        rows = rows[rows[:, 4] > 0]
        rows = rows[np.lexsort(rows.T[[3, 1, 0]])]
        query = np.unique(rows[:, 0], return_inverse=True)[1].ravel()
        pair = np.unique(rows[:, :2], axis=0, return_inverse=True)[1].ravel()
        impressions = rows[:, 4].astype(np.float64)
        # A title that is shown once and clicked twice was attractive once.
        clicks = np.minimum(rows[:, 5], impressions)
        return cls(query, pair, rows[:, 2], rows[:, 3], impressions, clicks)

    def first(self, positions: int) -> Shown:
        """The cells at the first positions."""
        kept = self.position <= positions
        arrays = {name: value[kept] for name, value in vars(self).items()}
        for name in ("query", "pair"):
            arrays[name] = np.unique(arrays[name], return_inverse=True)[1].ravel()
        return Shown(**arrays)

    def at(self, values: NDArray[np.floating], positions: int) -> NDArray[np.float64]:
        """Sums of values of cells by position, `(positions,)`."""
        sums = np.bincount(self.position - 1, values, minlength=positions)
        return sums[:positions].astype(np.float64)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Whether each cell's pair stood at other positions too, `(cells,)`."""
        return np.bincount(self.pair)[self.pair] > 1


def word_group(query: str, title: str) -> int:
    """The group of a pair, both texts normalised: in fifths, the share of the words shared.

    >>> word_group("red fox", "a fox"), word_group("red", "a fox"), word_group("fox", "a fox")
    (2, 0, 4)
    """
    wanted, there = set(query.split()), set(title.split())
    return (GROUPS - 1) * len(wanted & there) // len(wanted)
