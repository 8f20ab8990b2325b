"""Titles that were not clicked for a query, drawn reproducibly from a bounded pool."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar

from dssm_tf.text.fingerprint import unit_interval
from pipelines.aggregation import TitleTotal

PoolEntry = tuple[float, str, str, int, int, int]
"""A title that may be drawn: rank, normalised title, title as logged, clicks and queries of the
training part, clicks of all parts. A plain tuple, since Beam encodes those best.

The rank is exponential: a random number that is small for much-clicked titles.
"""

_Entry = TypeVar("_Entry", bound=tuple[Any, ...])


def pool_entries(
    totals: Iterable[tuple[str, TitleTotal]], alpha: float, seed: int
) -> Iterator[PoolEntry]:
    """Ranks clicked titles for the pool: rank ~ Exponential(all_clicks ** alpha)."""
    for key, ((text, clicks, queries), all_clicks) in totals:
        if all_clicks:
            uniform = unit_interval(key, f"pool {seed}")
            rank = -math.log1p(-uniform) / all_clicks**alpha
            yield rank, key, text, clicks, queries, all_clicks


def smallest(entries: Iterable[_Entry], size: int) -> list[_Entry]:
    """The `size + 1` entries of smallest rank, in any order: the pool and what bounds it."""
    held = list(entries)
    return held if len(held) <= size + 1 else heapq.nsmallest(size + 1, held)


class NegativePool:
    """Draws distinct titles in proportion to `clicks ** alpha`, never one that is excluded.

    Training records draw from the training part's titles by its clicks, so that a title the
    model is never to see as clicked is not pushed away either; other records draw from all
    titles of the log by all clicks.

    When the log has more titles than the pool holds, the pool is the bottom-k sample of the
    exponential ranks, and a title's weight is divided by its probability to be in it (Cohen and
    Kaplan 2007): over pools, draws stay in proportion to `clicks ** alpha`.

    Args:
        entries: as `smallest` leaves them, in any order.
        size: titles in the pool.
        alpha: the exponent.
    """

    def __init__(self, entries: Iterable[PoolEntry], size: int, alpha: float) -> None:
        kept = sorted(entries)
        bound = kept[size][0] if len(kept) > size else math.inf
        kept = sorted(kept[:size], key=itemgetter(1))
        self._keys = [key for _, key, *_ in kept]
        self._titles = [(text, clicks, queries) for _, _, text, clicks, queries, _ in kept]
        by_training, by_all = [], []
        for *_, clicks, _, all_clicks in kept:
            weight = all_clicks**alpha
            inclusion = -math.expm1(-bound * weight)
            by_training.append(clicks**alpha / inclusion if clicks else 0.0)
            by_all.append(weight / inclusion)
        self._by_training = _Weights(by_training)
        self._by_all = _Weights(by_all)

    def draw(
        self, number: int, excluded: Collection[str], stream: Iterator[int], *, training: bool
    ) -> list[tuple[str, int, int]]:
        """Up to `number` distinct titles (text, clicks, queries); fewer only when no other is left.

        Args:
            number: how many.
            excluded: normalised titles that must not be drawn.
            stream: random 64-bit numbers.
            training: whether for a training record.
        """
        weights = self._by_training if training else self._by_all
        if number <= 0 or not weights.positive:
            return []
        keys, cumulative, total = self._keys, weights.cumulative, weights.total
        drawn: list[int] = []
        # Rejection draws without replacement in proportion to the weights of what is left.
        for _ in range(16 * number + 16):
            at = bisect_right(cumulative, next(stream) / 18446744073709551616.0 * total)
            at = min(at, weights.last)
            if at in drawn or keys[at] in excluded:
                continue
            drawn.append(at)
            if len(drawn) == number:
                break
        else:
            drawn += self._draw_from_rest(number - len(drawn), drawn, excluded, stream, weights)
        return [self._titles[at] for at in drawn]

    def _draw_from_rest(
        self,
        number: int,
        drawn: Sequence[int],
        excluded: Collection[str],
        stream: Iterator[int],
        weights: _Weights,
    ) -> list[int]:
        """The same distribution, by looking at every title: for queries that clicked most."""
        taken = set(drawn)
        ranked = []
        for at, key in enumerate(self._keys):
            weight = weights.each[at]
            if weight and at not in taken and key not in excluded:
                uniform = (next(stream) >> 11) / 9007199254740992.0
                ranked.append((-math.log1p(-uniform) / weight, at))
        return [at for _, at in heapq.nsmallest(number, ranked)]


class _Weights:
    """Weights, their running sums, and where the last positive one is."""

    def __init__(self, each: list[float]) -> None:
        self.each = each
        self.cumulative = list(accumulate(each))
        self.total = self.cumulative[-1] if each else 0.0
        self.positive = sum(1 for weight in each if weight)
        self.last = max((at for at, weight in enumerate(each) if weight), default=0)


def pair_stream(seed: int, query: str, title: str) -> Iterator[int]:
    """Random 64-bit numbers that depend on the seed and the pair alone.

    The first is the record's key: its place in the shuffled output.
    """
    base = blake2b(f"{seed}\0{query}\0{title}".encode("utf-8", "surrogatepass"), digest_size=64)
    block = 0
    while True:
        digest = base if not block else base.copy()
        if block:
            digest.update(block.to_bytes(8, "little"))
        raw = digest.digest()
        for at in range(0, 64, 8):
            yield int.from_bytes(raw[at : at + 8], "little")
        block += 1
