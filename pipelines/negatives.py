"""Seeded hashes, and negatives: titles without clicks for a query, drawn by such hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]
EMPTY = -1
"""Marks an empty entry of a row of negatives."""
SPLIT, DRAW = range(2)
"""Purposes of `seeded_hash`; each purpose has its own hashes."""
_ROUNDS = 40
"""Draws per row before `fill_from_pool` gives up on rejection."""


def splitmix64(numbers: Hashes, salt: int = 0) -> Hashes:
    """Hashes 64-bit numbers by one step of the splitmix64 generator.

    Reference: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
    """
    z = numbers + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % (1 << 64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def to_unit_interval(numbers: Hashes) -> NDArray[np.float64]:
    """Maps 64-bit numbers to the interval [0, 1)."""
    return (numbers >> np.uint64(11)).astype(np.float64) / (1 << 53)


def seeded_hash(numbers: Hashes, seed: int, purpose: int) -> Hashes:
    """Hashes that depend only on the numbers, the seed and the purpose."""
    return splitmix64(numbers, 3 * seed + purpose)


class NegativePool:
    """Draws titles in proportion to `clicks ** alpha`.

    Args:
        clicks: `(titles,)`; a title without clicks is never drawn.
        alpha: the exponent.
    """

    def __init__(self, clicks: NDArray[np.int64], alpha: float) -> None:
        self.weights = np.where(clicks > 0, clicks**alpha, 0)
        self._cumulative = np.cumsum(self.weights)

    def draw(self, keys: Hashes, turn: int) -> Integers:
        """Draws the number of a title per key; another turn draws independently."""
        points = to_unit_interval(splitmix64(keys, turn)) * self._cumulative[-1]
        order = points.argsort()  # a search in order uses the processor's cache better
        titles = np.empty_like(order)
        titles[order] = self._cumulative.searchsorted(points[order], side="right")
        return np.minimum(titles, self._cumulative.searchsorted(self._cumulative[-1]))


def fill_from_impressions(
    rows: Integers, query: Integers, keys: Hashes, impressions: pl.DataFrame
) -> None:
    """Fills rows with titles that were displayed for the query and not clicked, in random order.

    Args:
        rows: `(pairs, negatives)`, `EMPTY` where empty; modified.
        query: `(pairs,)`, the query of each row.
        keys: `(pairs,)`, a random number per row.
        impressions: columns `query` and `number`, the title.
    """
    row_queries = pl.DataFrame({"row": np.arange(len(rows)), "query": query, "key": keys})
    titles = row_queries.join(impressions, on="query")
    title_hashes = splitmix64(titles["number"].to_numpy().astype(np.uint64))
    order = splitmix64(titles["key"].to_numpy() ^ title_hashes)
    titles = titles.with_columns(order=order).sort("row", "order", "number")
    titles = titles.with_columns(column=pl.int_range(pl.len()).over("row"))
    row, number, column = titles.filter(col.column < rows.shape[1])["row", "number", "column"]
    rows[row, column] = number


def fill_from_pool(
    rows: Integers, query: Integers, keys: Hashes, clicked: Integers, pool: NegativePool
) -> None:
    """Fills rows with distinct titles of the pool that have no clicks for the query.

    Titles are drawn without replacement, in proportion to the weights of the remaining titles, by
    rejection. Rows that are still incomplete draw again from a pool without the clicked titles of
    their query, and finally from a list of the remaining titles. Entries stay empty only if no
    title remains.

    Args:
        rows: `(pairs, negatives)`, `EMPTY` where empty; modified.
        query: `(pairs,)`, the query of each row.
        keys: `(pairs,)`, a random number per row.
        clicked: the pairs to avoid, each as `query * titles + title`, increasing.
        pool: the pool.
    """
    titles, filled = len(pool.weights), (rows != EMPTY).sum(1)

    def draw(todo: Integers, pool: NegativePool, first: int) -> Integers:
        """Draws `_ROUNDS` times, beginning with turn `first`; returns the incomplete rows."""
        for turn in range(first, first + _ROUNDS if pool.weights.any() else first):
            candidates = pool.draw(keys[todo], turn)
            is_repeat = (rows[todo] == candidates[:, None]).any(1)
            accepted = ~(isin_sorted(query[todo] * titles + candidates, clicked) | is_repeat)
            row = todo[accepted]
            rows[row, filled[row]] = candidates[accepted]
            filled[row] += 1
            todo = todo[filled[todo] < rows.shape[1]]
        return todo

    incomplete = draw(np.flatnonzero(filled < rows.shape[1]), pool, 0)
    for query_number in np.unique(query[incomplete]):
        weights = pool.weights.copy()
        ends = np.searchsorted(clicked, [query_number * titles, (query_number + 1) * titles])
        weights[clicked[slice(*ends)] - query_number * titles] = 0
        todo = incomplete[query[incomplete] == query_number]
        for row in draw(todo, NegativePool(weights, 1), _ROUNDS).tolist():
            remaining = np.setdiff1d(np.flatnonzero(weights), rows[row])
            title_hashes = splitmix64(remaining.astype(np.uint64))
            uniform = to_unit_interval(splitmix64(keys[row] ^ title_hashes, 2 * _ROUNDS))
            # The smallest exponential variates are a draw without replacement by weight.
            arrivals = -np.log1p(-uniform) / weights[remaining]
            chosen_titles = remaining[np.argsort(arrivals, kind="stable")]
            chosen_titles = chosen_titles[: rows.shape[1] - filled[row]]
            rows[row, filled[row] : filled[row] + len(chosen_titles)] = chosen_titles


def isin_sorted(values: NDArray[Any], increasing: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the values that a sorted array contains; unlike `np.isin`, it sorts nothing."""
    first, end = (increasing.searchsorted(values, side) for side in ("left", "right"))
    return end > first
