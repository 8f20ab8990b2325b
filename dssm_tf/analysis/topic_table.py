"""Keywords assigned to each cell of a recurrent tower, text by text (P16, table III)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dssm_tf.analysis.cells import LARGE_ENOUGH, Reading, most_active

_ACTIVE = 5
_CELLS = 8
_TEXTS_A_CELL = 2


class TopicTable(NamedTuple):
    """Texts by cells.

    Attributes:
        cells: their numbers in the semantic vector, that of most keywords first.
        texts: words of each text; for every cell those in which it says most stand together.
        keywords: of each text, by cell, the words that the cell picked up.
    """

    cells: list[int]
    texts: list[list[str]]
    keywords: list[dict[int, list[str]]]


def topic_table(
    read: Iterable[Sequence[Reading]], cells: int = _CELLS, active: int = _ACTIVE
) -> TopicTable:
    """Which words the most active cells of each text picked up.

    A word is a cell's where it changes the cell by more than `LARGE_ENOUGH` times what the cell
    says in the end; the word read first is not counted, as in the paper's table.

    Args:
        read: texts as `survey.readings` gives them, such as all queries of a test set.
        cells: columns, those with keywords in the most texts.
        active: cells looked at in each text.

    Returns:
        Of every cell the texts in which it is strongest.

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    found: list[tuple[list[str], dict[int, list[str]]]] = []
    held: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for of_text in read:
        keywords: dict[int, list[str]] = {}
        for place, reading in enumerate(of_text):
            for cell in most_active(reading.y[-1], active):
                if words := _picked(reading, int(cell)):
                    number = place * reading.y.shape[1] + int(cell)
                    keywords[number] = words
                    held[number].append((-abs(float(reading.y[-1, cell])), len(found)))
        found.append((of_text[0].words, keywords))
    columns = sorted(held, key=lambda cell: (-len(held[cell]), cell))[:cells]
    rows: dict[int, None] = {}
    for cell in columns:
        fresh = [text for _, text in sorted(held[cell]) if text not in rows]
        rows.update(dict.fromkeys(fresh[:_TEXTS_A_CELL]))
    return TopicTable(columns, [found[row][0] for row in rows], [found[row][1] for row in rows])


def _picked(reading: Reading, cell: int) -> list[str]:
    """The words that moved a cell, in the order of the text, each once."""
    y = reading.y[:, cell]
    moved = np.abs(np.diff(y)) > LARGE_ENOUGH * abs(y[-1])
    words = reading.words[::-1] if reading.backwards else reading.words
    picked = [words[place + 1] for place in np.flatnonzero(moved)]
    return list(dict.fromkeys(picked[::-1] if reading.backwards else picked))
