"""Activity of a recurrent tower's cells: the most active cells, keywords, and topics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

ACTIVE_CELLS = 10
"""Number of the most active cells that `changed_cell_counts` and `keywords` count."""

KEYWORD_FRACTION = 0.4
"""A keyword changes more than this fraction of the most active cells."""

LARGE_CHANGE = 0.5
"""A change is large enough if it exceeds this fraction of the cell's last output."""

TOPIC_CELLS = 5
"""Number of the most active cells for which `cell_keywords` and `topics` collect keywords."""


def most_active(vector: Array, count: int = ACTIVE_CELLS) -> NDArray[np.intp]:
    """The `count` cells with the largest `|y|`, largest first; ties are in index order.

    The sign does not matter: -0.9 is as active as 0.9.
    """
    return np.argsort(-np.abs(vector), kind="stable")[:count]


@dataclass(frozen=True)
class Reading:
    """The activations of one direction of a recurrent tower at each word of a text.

    Attributes:
        words: the words of the text.
        backwards: whether the direction reads from the right.
        activations: gates, cells and outputs by their names in eq. 2 of Palangi et al. 2016 (`i`,
            `f`, `o`, `c`, `y`), each `(words, cells)`, in the order of the text.
    """

    words: list[str]
    backwards: bool
    activations: Mapping[str, Array]

    @property
    def y(self) -> Array:
        """Outputs in reading order, `(words, cells)`."""
        return self.activations["y"][::-1] if self.backwards else self.activations["y"]

    def changes(self, cells: NDArray[np.intp], large_change: float = LARGE_CHANGE) -> Array:
        """Mask of the words that change a cell enough, `(words, cells)`, in the order of the text.

        The paper requires "a large enough change" of a cell's y. Here a change is large enough if
        it exceeds `large_change` times the absolute value of y after the last word. The first word
        that is read never counts: all cells are zero before it, so it changes all of them.
        """
        y = self.y[:, cells]
        mask = np.zeros(y.shape, bool)
        mask[1:] = np.abs(np.diff(y, axis=0)) > large_change * np.abs(y[-1])
        return mask[::-1] if self.backwards else mask

    def changed_cell_counts(self, count: int = ACTIVE_CELLS) -> list[int | None]:
        """For each word, how many of the `count` most active cells it changes.

        Words are in the order of the text. The first word that is read has None.

        Reference: Palangi et al. 2016, sec. V-A2 and footnote 3, tables I and II.
        """
        counts: list[int | None] = self.changes(most_active(self.y[-1], count)).sum(1).tolist()
        counts[-1 if self.backwards else 0] = None
        return counts


def keywords(readings: Sequence[Reading], count: int = ACTIVE_CELLS) -> list[bool]:
    """Whether each word is a keyword: it changes over 40 % of the active cells in each direction.

    For the first word that a direction reads, only the other direction counts. The only word of a
    text is a keyword.

    Reference: Palangi et al. 2016, sec. V-A2.
    """
    if len(readings[0].words) == 1:
        return [True]
    active = min(count, readings[0].y.shape[1])
    flags = []
    counts_by_reading = (reading.changed_cell_counts(count) for reading in readings)
    for word_counts in zip(*counts_by_reading, strict=True):
        counts = [changed for changed in word_counts if changed is not None]
        flags.append(bool(counts) and all(n > KEYWORD_FRACTION * active for n in counts))
    return flags


def cell_keywords(readings: Sequence[Reading], count: int = TOPIC_CELLS) -> dict[int, list[str]]:
    """For each of a text's most active cells, the words that change it.

    Unlike in `keywords`, one changed cell is enough. Cells that no word changes are left out.

    Args:
        readings: the readings of one text, one per direction. The indices of the second direction's
            cells continue after those of the first direction's.
        count: number of most active cells per direction.

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    words_by_cell = {}
    for direction, reading in enumerate(readings):
        cells = most_active(reading.y[-1], count)
        for cell, mask in zip(cells.tolist(), reading.changes(cells).T, strict=True):
            if mask.any():
                words = dict.fromkeys(np.array(reading.words)[mask].tolist())
                words_by_cell[direction * reading.y.shape[1] + cell] = list(words)
    return words_by_cell


class CellTopic(NamedTuple):
    """The keywords of a cell in many texts.

    Attributes:
        cell: index of the cell in the semantic vector.
        text_count: number of texts in which the cell has a keyword.
        keywords: its keywords with the number of texts of each, most frequent first.
    """

    cell: int
    text_count: int
    keywords: list[tuple[str, int]]


def topics(texts: Iterable[Sequence[Reading]], count: int = TOPIC_CELLS) -> list[CellTopic]:
    """Collects the words of `cell_keywords` over many texts; the cells of most texts come first.

    Args:
        texts: the readings of each text, for example of each query of a test set.
        count: number of most active cells per text and direction.

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    word_counts: dict[int, Counter[str]] = defaultdict(Counter)
    text_counts: Counter[int] = Counter()
    for readings in texts:
        for cell, words in cell_keywords(readings, count).items():
            word_counts[cell].update(words)
            text_counts[cell] += 1
    return [
        CellTopic(
            cell,
            text_counts[cell],
            sorted(word_counts[cell].items(), key=lambda item: (-item[1], item[0])),
        )
        for cell in sorted(text_counts, key=lambda cell: (-text_counts[cell], cell))
    ]
