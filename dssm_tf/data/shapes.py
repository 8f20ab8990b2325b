"""Sizes of a batch's tensors: rows of like length together, and one size for most batches.

A matrix of texts is as wide as its longest text, so a batch with one text of 34 words would spend
two thirds of its work on padding if the others have 12. Rows are therefore put in two *parts*,
short ones and long ones, each as wide as its own longest row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SHORT = 0.9
"""The share of the rows that are in the first part."""
_STEP = 8


class Part(NamedTuple):
    """Rows of at most `columns` entries; padded to `rows` rows, 0 for as many as there are."""

    columns: int
    rows: int = 0


class TextShape(NamedTuple):
    """Parts of a text batch: of the texts by words, of the words by trigrams; () for one."""

    tokens: tuple[Part, ...] = ()
    word_ngrams: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Shapes:
    """Parts of each text batch of a batch: `query` and `titles`, or `texts` for both.

    With sizes of rows, one compiled program serves most batches; one that does not fit grows by
    steps of an eighth of the planned size.

    Attributes:
        sides: of the text batches; what is missing is in one part.
        distinct_titles: titles of a batch, 0 for as many as there are.
    """

    sides: Mapping[str, TextShape] = field(default_factory=dict)
    distinct_titles: int = 0

    def of(self, side: str) -> TextShape:
        """The parts of a text batch."""
        return self.sides.get(side, TextShape())


def plan_shapes(batches: Sequence[dict[str, Any]], fixed: bool) -> Shapes:
    """Sizes for batches like these.

    Args:
        batches: inputs of a `Siamese`, each text batch in one part.
        fixed: whether rows are padded to one number, as compiled programs need them.
    """
    sides = {
        side: TextShape._make(
            _parts([_lengths(one[side][name]) for one in batches], fixed)
            for name in TextShape._fields
        )
        for side in batches[0].keys() - {"candidates"}
    }
    titles = 1 + max(int(np.max(one["candidates"])) for one in batches)
    return Shapes(sides, _with_headroom(titles) if fixed else 0)


def _lengths(matrix: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.count_nonzero(np.asarray(matrix), axis=1)
    return np.maximum(lengths, 1)  # an empty row takes a column too


def _parts(batches: Sequence[NDArray[np.int64]], fixed: bool) -> tuple[Part, ...]:
    """Parts for rows of these lengths."""
    every = np.concatenate(batches)
    parts, below = [], 0
    for bound in np.unique([int(np.quantile(every, SHORT)), every.max()]).tolist():
        rows = max(int(np.sum((lengths > below) & (lengths <= bound))) for lengths in batches)
        parts.append(Part(bound, _with_headroom(rows) if fixed else 0))
        below = bound
    return tuple(parts)


def _with_headroom(size: int) -> int:
    """A little larger, at a round number."""
    return -(-int(size * 1.1 + 1) // _STEP) * _STEP
