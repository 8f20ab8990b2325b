"""What the cells of a recurrent tower did with a text: who was active, which words moved them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

ACTIVE = 10
KEYWORD = 0.4
LARGE_ENOUGH = 0.5
TOPIC_CELLS = 5


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

    def changes(self, cells: NDArray[np.intp], large_enough: float = LARGE_ENOUGH) -> Array:
        """Which words change which cells enough, `(words, cells)`, in the order of the text.

        The paper wants "a large enough change" of a cell's y: here one of more than `large_enough`
        times what y is after the last word. The word read first changes none: before it all cells
        are zero, so that it would move all of them.
        """
        y = self.y[:, cells]
        found = np.zeros(y.shape, bool)
        found[1:] = np.abs(np.diff(y, axis=0)) > large_enough * np.abs(y[-1])
        return found[::-1] if self.backwards else found

    def moved(self, number: int = ACTIVE) -> list[int | None]:
        """How many of the most active cells each word moves, in the order of the text.

        None for the word read first.

        Reference: Palangi et al. 2016, sec. V-A2 and footnote 3, tables I and II.
        """
        counts: list[int | None] = self.changes(most_active(self.y[-1], number)).sum(1).tolist()
        counts[-1 if self.backwards else 0] = None
        return counts


def keywords(readings: Sequence[Reading], number: int = ACTIVE) -> list[bool]:
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


def cell_keywords(read: Sequence[Reading], number: int = TOPIC_CELLS) -> dict[int, list[str]]:
    """The words that each of a text's most active cells picked up, by cell.

    Args:
        read: the text, as each direction read it; cells of the second count on from the first's.
        number: of cells looked at in each direction.

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    found = {}
    for direction, reading in enumerate(read):
        cells = most_active(reading.y[-1], number)
        for cell, picked in zip(cells.tolist(), reading.changes(cells).T, strict=True):
            if picked.any():
                words = dict.fromkeys(np.array(reading.words)[picked].tolist())
                found[direction * reading.y.shape[1] + cell] = list(words)
    return found


def topics(
    read: Iterable[Sequence[Reading]], number: int = TOPIC_CELLS
) -> list[tuple[int, int, list[tuple[str, int]]]]:
    """The keywords of each cell over many texts, the busiest cell first.

    Args:
        read: texts, such as all queries of a test set, as each direction read them.
        number: of the most active cells looked at in each text and direction.

    Returns:
        Of each cell, its number in the semantic vector, in how many texts it has a keyword, and its
        keywords with the number of texts of each, most frequent first.

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    texts: Counter[int] = Counter()
    for of_text in read:
        for cell, words in cell_keywords(of_text, number).items():
            counts[cell].update(words)
            texts[cell] += 1
    return [
        (cell, texts[cell], sorted(counts[cell].items(), key=lambda one: (-one[1], one[0])))
        for cell in sorted(texts, key=lambda cell: (-texts[cell], cell))
    ]
