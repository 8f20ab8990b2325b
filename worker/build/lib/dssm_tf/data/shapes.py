"""Sizes of a batch's tensors: rows of like length together, and one size for most batches.

A matrix of texts is as wide as its longest text, so a batch with one text of 34 words would spend
two thirds of its work on padding if the others have 12. Rows are therefore put in a few *parts*,
each as wide as its own longest row; a part costs a little, so few are planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_PARTS = 3
# What a column of a further part costs besides its entries, in rows: a step of a recurrence, or
# a call of the summing operation, over nothing.
_COST = {"tokens": 60, "word_ngrams": 20}
_STEP = 8
_MAX_WIDTHS = 48  # that are tried


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
        side: TextShape(
            **{
                name: _parts([_lengths(one[side][name]) for one in batches], cost, fixed)
                for name, cost in _COST.items()
            }
        )
        for side in batches[0].keys() - {"candidates"}
    }
    titles = 1 + max(int(np.max(one["candidates"])) for one in batches)
    return Shapes(sides, _with_headroom(titles) if fixed else 0)


def _lengths(matrix: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.count_nonzero(np.asarray(matrix), axis=1)
    return np.maximum(lengths, 1)  # an empty row takes a column too


def _parts(batches: Sequence[NDArray[np.int64]], cost: int, fixed: bool) -> tuple[Part, ...]:
    """The cheapest parts for rows of these lengths."""
    bounds = cheapest_bounds(np.concatenate(batches), len(batches), cost)
    parts = []
    for below, bound in pairwise((0, *bounds)):
        rows = max(int(np.sum((lengths > below) & (lengths <= bound))) for lengths in batches)
        parts.append(Part(bound, _with_headroom(rows) if fixed else 0))
    return tuple(parts)


def cheapest_bounds(lengths: NDArray[np.int64], batches: int, cost: float) -> tuple[int, ...]:
    """Widths of at most `MAX_PARTS` parts that take the least work.

    The work of a part is its width times its rows plus `cost`.

    Args:
        lengths: of the rows of all batches, at least 1.
        batches: how many there are.
        cost: of a column, in rows.

    Returns:
        Increasing; the last is the greatest length.
    """
    lengths = np.sort(lengths)
    *tried, longest = np.unique(lengths).tolist()
    if len(tried) > _MAX_WIDTHS:
        tried = [tried[at] for at in np.linspace(0, len(tried) - 1, _MAX_WIDTHS).astype(int)]

    def work(bounds: tuple[int, ...]) -> float:
        rows = np.diff(np.searchsorted(lengths, bounds, "right"), prepend=0) / batches
        return float(np.dot(bounds, rows + cost))

    inner = (one for parts in range(MAX_PARTS) for one in combinations(tried, parts))
    return min(((*one, longest) for one in inner), key=work)


def _with_headroom(size: int) -> int:
    """A little larger, at a round number."""
    return -(-int(size * 1.1 + 1) // _STEP) * _STEP
