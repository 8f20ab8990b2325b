"""Titles that were not clicked for a query, drawn reproducibly from a bounded pool."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.texts import mix, unit

Numbers = NDArray[np.int64]
NONE = -1
POOL_COLUMNS = {"rank": pl.Float64, "title": pl.Int64, "clicks": pl.Int64, "all": pl.Int64}
"""Titles that may be drawn: a random rank, the title, clicks of the training part and of all."""
_ROUNDS = 40


def smallest(pool: pl.DataFrame, size: int) -> pl.DataFrame:
    """The `size + 1` titles of smallest rank: the pool and what bounds it."""
    return pool.sort("rank", "title").head(size + 1)


class NegativePool:
    """Draws titles in proportion to `clicks ** alpha`.

    When the log has more titles than the pool holds, the pool is the bottom-k sample of the
    exponential ranks, and a title's weight is divided by its probability to be in it (Cohen and
    Kaplan 2007): over pools, draws stay in proportion to `clicks ** alpha`.

    Args:
        pool: as `smallest` leaves it, with the title's number.
        size: titles in the pool.
        alpha: the exponent.
        training: whether titles are drawn that the training part clicked, by its clicks, so that a
            title which the model is never to see as clicked is not pushed away either; else those
            of all parts, by all clicks.
    """

    def __init__(self, pool: pl.DataFrame, size: int, alpha: float, *, training: bool) -> None:
        kept = pool.sort("rank", "number")
        bound = kept["rank"][size] if len(kept) > size else math.inf
        kept = kept.head(size).sort("number")
        every = kept["all"].to_numpy().astype(np.float64) ** alpha
        clicks = kept["clicks"].to_numpy().astype(np.float64)
        weights = np.where(clicks > 0, clicks**alpha, 0) if training else every
        weights = weights / -np.expm1(-bound * every)
        self.numbers = kept["number"].to_numpy()[weights > 0]
        self.weights = weights[weights > 0]
        self._upto = np.cumsum(self.weights)

    def draw(self, keys: NDArray[np.uint64], turn: int) -> Numbers:
        """A title for each key; another turn gives another one."""
        at = unit(mix(keys, turn)) * self._upto[-1]
        place = np.searchsorted(self._upto, at, side="right")
        return self.numbers[np.minimum(place, len(self.numbers) - 1)]


class Clicked:
    """Which titles were clicked for which query.

    Args:
        query: of each pair, a row's number.
        title: of each pair.
        titles: how many there are.
    """

    def __init__(self, query: Numbers, title: Numbers, titles: int) -> None:
        self._codes = np.append(np.unique(query * titles + title), -1)  # for what is behind the end
        self._titles = titles

    def __call__(self, query: Numbers, title: Numbers) -> NDArray[np.bool_]:
        """Whether each title was clicked for the query beside it."""
        codes = query * self._titles + title
        return self._codes[np.searchsorted(self._codes[:-1], codes)] == codes


def add_shown(rows: Numbers, query: Numbers, keys: NDArray[np.uint64], shown: pl.DataFrame) -> None:
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
    found = found.with_columns(order=pl.Series(order)).sort("row", "order", "number")
    found = found.with_columns(place=pl.int_range(pl.len()).over("row"))
    row, number, place = found.filter(pl.col("place") < rows.shape[1])["row", "number", "place"]
    rows[row, place] = number


def add_drawn(
    rows: Numbers,
    query: Numbers,
    keys: NDArray[np.uint64],
    clicked: Clicked,
    pool: NegativePool,
) -> None:
    """Fills rows with distinct titles of the pool that nobody clicked for their query.

    Rejection draws without replacement in proportion to the weights of what is left. A row that
    chance leaves short gets the rest of the same distribution by looking at every title, so places
    stay empty only where no title is left.

    Args:
        rows: `(pairs, negatives)`, `NONE` where nothing is yet; filled.
        query: of each row.
        keys: random numbers, one a row.
        clicked: the pairs to avoid.
        pool: to draw from.
    """
    if not len(pool.numbers):
        return
    held = (rows != NONE).sum(1)
    for turn in range(_ROUNDS):
        todo = np.flatnonzero(held < rows.shape[1])
        found = pool.draw(keys[todo], turn)
        good = ~clicked(query[todo], found) & ~(rows[todo] == found[:, None]).any(1)
        at = todo[good]
        rows[at, held[at]] = found[good]
        held[at] += 1
    for row in np.flatnonzero(held < rows.shape[1]).tolist():
        left = ~clicked(np.full(len(pool.numbers), query[row]), pool.numbers)
        left &= ~np.isin(pool.numbers, rows[row])
        numbers = pool.numbers[left]
        uniform = unit(mix(keys[row] ^ mix(numbers.astype(np.uint64)), _ROUNDS))
        ranks = -np.log1p(-uniform) / pool.weights[left]
        best = numbers[np.argsort(ranks, kind="stable")][: rows.shape[1] - held[row]]
        rows[row, held[row] : held[row] + len(best)] = best
