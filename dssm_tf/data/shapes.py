"""Sizes of a batch's tensors: rows of like length together, and one size for most batches.

A matrix of texts is as wide as its longest text, so a batch with one text of 34 words would spend
two thirds of its work on padding when the others have 12. Rows are therefore put in a few *parts*,
each as wide as its own longest row; a part costs a little, so few are planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_PARTS = 3
# What a column of a further part costs besides its entries, in rows: a step of a recurrence, or
# a call of the summing operation, over nothing.
_TEXT_COLUMN_COST = 60
_WORD_COLUMN_COST = 20
_STEP = 8
_LONGEST_TRIED = 48


class Part(NamedTuple):
    """Rows of at most `columns` entries; padded to `rows` rows, 0 for as many as there are."""

    columns: int
    rows: int = 0


@dataclass(frozen=True)
class TextShape:
    """Parts of a text batch: of the texts by words, of the words by trigrams; () for one."""

    texts: tuple[Part, ...] = ()
    words: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Shapes:
    """Parts of the queries and the titles of a batch, or of both as one text batch.

    With sizes of rows, one compiled program serves most batches; one that does not fit grows by
    steps of an eighth of the planned size.

    Attributes:
        distinct_titles: titles of a batch, 0 for as many as there are.
    """

    query: TextShape = TextShape()
    titles: TextShape = TextShape()
    distinct_titles: int = 0
    texts: TextShape = TextShape()


def plan_shapes(batches: Iterable[dict[str, Any]], fixed: bool) -> Shapes:
    """Sizes for batches like these.

    Args:
        batches: inputs of a `Siamese`, each text batch in one part.
        fixed: whether rows are padded to one number, as compiled programs want them.
    """
    inputs = list(batches)
    sides = {}
    for side in inputs[0].keys() - {"candidates"} if inputs else ():
        found = [
            tuple(_lengths(one[side][name]) for name in ("tokens", "word_ngrams")) for one in inputs
        ]
        texts = _parts([texts for texts, _ in found], _TEXT_COLUMN_COST, fixed)
        words = _parts([words for _, words in found], _WORD_COLUMN_COST, fixed)
        sides[side] = TextShape(texts, words)
    titles = max((_distinct_titles(one) for one in inputs), default=0)
    return Shapes(**sides, distinct_titles=_with_headroom(titles) if fixed else 0)


def _distinct_titles(inputs: dict[str, Any]) -> int:
    if "titles" in inputs:
        return len(inputs["titles"]["tokens"])
    return len(inputs["texts"]["tokens"]) - len(inputs["candidates"])


def _lengths(matrix: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.count_nonzero(np.asarray(matrix), axis=1)
    return lengths


def _parts(batches: Sequence[NDArray[np.int64]], cost: int, fixed: bool) -> tuple[Part, ...]:
    """The cheapest parts for rows of these lengths."""
    if not batches:
        return ()
    counts = np.bincount(np.concatenate(batches)) / len(batches)  # rows of a length in a batch
    bounds = cheapest_bounds(counts, cost)
    parts, below = [], -1
    for bound in bounds:
        rows = max(int(np.sum((lengths > below) & (lengths <= bound))) for lengths in batches)
        parts.append(Part(bound, _with_headroom(rows) if fixed else 0))
        below = bound
    return tuple(parts)


def cheapest_bounds(counts: NDArray[np.floating[Any]], cost: float) -> tuple[int, ...]:
    """Widths of at most `MAX_PARTS` parts that take the least work.

    The work of a part is its width times its rows plus `cost`.

    Args:
        counts: rows of each length, from 0.
        cost: of a column, in rows.

    Returns:
        Increasing; the last is the greatest length, at least 1.
    """
    longest = max(len(counts) - 1, 1)
    counts = np.pad(counts, (0, max(2 - len(counts), 0))).astype(np.float64)
    counts[1] += counts[0]  # an empty row takes a column too
    counts[0] = 0
    upto = np.append(np.cumsum(counts), np.sum(counts))
    tried = np.flatnonzero(counts)
    tried = tried[(tried > 0) & (tried < longest)]
    if len(tried) > _LONGEST_TRIED:
        tried = tried[np.linspace(0, len(tried) - 1, _LONGEST_TRIED).astype(int)]
    best, least = (longest,), np.inf
    for inner in range(MAX_PARTS):
        for chosen in combinations(tried.tolist(), inner):
            work, below = 0.0, 0.0
            for bound in (*chosen, longest):
                work += bound * (upto[bound] - below + cost)
                below = upto[bound]
            if work < least:
                best, least = (*chosen, longest), work
    return best


def _with_headroom(size: int) -> int:
    """A little larger, at a round number."""
    return -(-int(size * 1.1 + 1) // _STEP) * _STEP
