"""Remembers what was computed for lists of titles: a corpus is scored many times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

TITLES = 1 << 16


class TitleCache(Generic[T]):
    """Keeps what a function gave for the lists of titles used last.

    Lists are told apart by their titles, so a list that was changed in place
    is a new one.

    Args:
        limit: how many titles the lists remembered may hold together; the
            last list is remembered whatever its length.

    >>> lengths = TitleCache()
    >>> lengths.get(["a", "bc"], lambda titles: [len(title) for title in titles])
    [1, 2]
    """

    def __init__(self, limit: int = TITLES) -> None:
        self._limit = limit
        self._held = 0
        self._kept: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._last: tuple[tuple[str, ...], T] | None = None

    def get(self, titles: Sequence[str], compute: Callable[[tuple[str, ...]], T]) -> T:
        """What `compute` gives for the titles, now or when it last did."""
        last = self._last
        if last is not None and titles is last[0]:
            return last[1]
        key = tuple(titles)
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = compute(key)
            self._held += len(key)
            while self._held > self._limit and len(self._kept) > 1:
                dropped, _ = self._kept.popitem(last=False)
                self._held -= len(dropped)
        self._last = (key, self._kept[key])
        return self._last[1]
