"""What the cells of a recurrent tower did with a text: who was active, which words moved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

ACTIVE = 10
KEYWORD = 0.4
LARGE_ENOUGH = 0.5


def most_active(vector: Array, number: int = ACTIVE) -> NDArray[np.intp]:
    """The cells with the largest `|y|`, largest first, equal ones by their number.

    A cell says as much by -.9 as by .9.
    """
    return np.argsort(-np.abs(vector), kind="stable")[:number]


@dataclass(frozen=True)
class Reading:
    """A text as one direction of a tower read it.

    Attributes:
        words: of the text.
        backwards: whether they were read from the right.
        activations: by the names of P16 eq. 2, such as `i`, `f`, `o`, `c`, `y`, each
            `(words, cells)` in the order of the text.
    """

    words: list[str]
    backwards: bool
    activations: Mapping[str, Array]

    @property
    def y(self) -> Array:
        """Outputs in the order in which the words were read, `(words, cells)`."""
        return self.activations["y"][::-1] if self.backwards else self.activations["y"]

    def moved(self, number: int = ACTIVE, large_enough: float = LARGE_ENOUGH) -> list[int | None]:
        """How many of the most active cells each word moves, in the order of the text.

        The paper wants "a large enough change" of a cell's y: here one of more than `large_enough`
        times what y is in the end. None for the word read first: before it all cells are zero,
        so that it moves all of them.

        Reference: Palangi et al. 2016, sec. V-A2 and footnote 3, tables I and II.
        """
        y = self.y[:, most_active(self.y[-1], number)]
        changes = np.abs(np.diff(y, axis=0)) > large_enough * np.abs(y[-1])
        counts: list[int | None] = [None, *map(int, changes.sum(axis=1))]
        return counts[::-1] if self.backwards else counts


def keywords(readings: list[Reading], number: int = ACTIVE) -> list[bool]:
    """Which words are keywords: they move more than 40 % of the active cells in every direction.

    The word that a direction reads first is judged by the others; a text of one word has its
    keyword.

    Reference: Palangi et al. 2016, sec. V-A2.
    """
    counts = [reading.moved(number) for reading in readings]
    active = min(number, readings[0].y.shape[1])
    found = []
    for of_word in zip(*counts, strict=True):
        known = [count for count in of_word if count is not None]
        single = len(readings[0].words) == 1
        found.append(single or (bool(known) and all(one > KEYWORD * active for one in known)))
    return found


def shared_cells(query: Array, title: Array, number: int = ACTIVE) -> list[tuple[int, float]]:
    """The cells that say most of a cosine: their products in two unit vectors, largest first."""
    products = query * title
    return [(int(cell), float(products[cell])) for cell in np.argsort(-products)[:number]]
