"""Random numbers of fingerprints, and titles not clicked for a query that they draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]
NONE = -1
SPLIT, DRAW = range(2)
"""Purposes of random numbers: no two have the same."""
_ROUNDS = 40


def mix(numbers: Hashes, salt: int = 0) -> Hashes:
    """Other 64-bit numbers, as if drawn at random (splitmix64)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % (1 << 64))
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def unit(numbers: Hashes) -> NDArray[np.float64]:
    """64-bit numbers as fractions from 0 to 1."""
    return (numbers >> np.uint64(11)).astype(np.float64) / (1 << 53)


def random(numbers: Hashes, seed: int, purpose: int) -> Hashes:
    """Numbers that depend on the given ones, the seed and the purpose alone."""
    return mix(numbers, 3 * seed + purpose)


class NegativePool:
    """Draws titles in proportion to `clicks ** alpha`.

    Args:
        clicks: of each title, by number; what has none is never drawn.
        alpha: the exponent.
    """

    def __init__(self, clicks: NDArray[np.int64], alpha: float) -> None:
        self.weights = np.where(clicks > 0, clicks**alpha, 0)
        self._upto = np.cumsum(self.weights)

    def draw(self, keys: Hashes, turn: int) -> Numbers:
        """A title for each key; another turn gives another one."""
        at = unit(mix(keys, turn)) * self._upto[-1]
        order = at.argsort()  # in order, as an unordered search misses the processor's cache
        place = np.empty_like(order)
        place[order] = self._upto.searchsorted(at[order], side="right")
        return np.minimum(place, self._upto.searchsorted(self._upto[-1]))


def add_shown(rows: Numbers, query: Numbers, keys: Hashes, shown: pl.DataFrame) -> None:
    """Fills rows with titles that were shown for their query and not clicked, in random order.

    Args:
        rows: `(pairs, negatives)`, `NONE` where nothing is yet; filled.
        query: of each row.
        keys: random numbers, one a row.
        shown: pairs q, number.
    """
    asked = pl.DataFrame({"row": np.arange(len(rows)), "q": query, "key": keys})
    found = asked.join(shown, on="q")
    order = mix(found["key"].to_numpy() ^ mix(found["number"].to_numpy().astype(np.uint64)))
    found = found.with_columns(order=order).sort("row", "order", "number")
    found = found.with_columns(place=pl.int_range(pl.len()).over("row"))
    row, number, place = found.filter(col.place < rows.shape[1])["row", "number", "place"]
    rows[row, place] = number


def add_drawn(
    rows: Numbers, query: Numbers, keys: Hashes, clicked: Numbers, pool: NegativePool
) -> None:
    """Fills rows with distinct titles of the pool that nobody clicked for their query.

    Rejection draws without replacement in proportion to the weights of what is left. Rows that
    chance leaves short draw again among the titles that nobody clicked for their query, and at last
    by looking at every title, so places stay empty only where no title is left.

    Args:
        rows: `(pairs, negatives)`, `NONE` where nothing is yet; filled.
        query: of each row.
        keys: random numbers, one a row.
        clicked: the pairs to avoid, `query * titles + title` of each, increasing.
        pool: to draw from.
    """
    titles, held = len(pool.weights), (rows != NONE).sum(1)

    def draw(todo: Numbers, pool: NegativePool, first: int) -> Numbers:
        """Draws in turns from the first one on; returns the rows that are short in the end."""
        for turn in range(first, first + _ROUNDS if pool.weights.any() else first):
            found = pool.draw(keys[todo], turn)
            taken = (rows[todo] == found[:, None]).any(1)
            good = ~(among(query[todo] * titles + found, clicked) | taken)
            at = todo[good]
            rows[at, held[at]] = found[good]
            held[at] += 1
            todo = todo[held[todo] < rows.shape[1]]
        return todo

    short = draw(np.flatnonzero(held < rows.shape[1]), pool, 0)
    for one in np.unique(query[short]):
        weights = pool.weights.copy()
        ends = np.searchsorted(clicked, [one * titles, (one + 1) * titles])
        weights[clicked[slice(*ends)] - one * titles] = 0
        for row in draw(short[query[short] == one], NegativePool(weights, 1), _ROUNDS).tolist():
            left = np.setdiff1d(np.flatnonzero(weights), rows[row])
            uniform = unit(mix(keys[row] ^ mix(left.astype(np.uint64)), 2 * _ROUNDS))
            ranks = -np.log1p(-uniform) / weights[left]
            best = left[np.argsort(ranks, kind="stable")][: rows.shape[1] - held[row]]
            rows[row, held[row] : held[row] + len(best)] = best


def among(values: NDArray[Any], increasing: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are there; NumPy's isin would sort them all, for each bucket anew."""
    before, upto = (increasing.searchsorted(values, side) for side in ("left", "right"))
    return upto > before
