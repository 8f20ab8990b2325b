"""Remembers what was computed for lists of titles: a corpus is scored many times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

LISTS = 8


class TitleCache(Generic[T]):
    """Keeps what a function gave for the last lists of titles.

    Lists are told apart by their titles, so a list that was changed in place is a new one.

    >>> lengths = TitleCache()
    >>> lengths.get(["a", "bc"], lambda titles: [len(title) for title in titles])
    [1, 2]
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[tuple[str, ...], T]] = deque(maxlen=LISTS)

    def get(self, titles: Sequence[str], compute: Callable[[tuple[str, ...]], T]) -> T:
        """What `compute` gives for the titles, now or when it last did."""
        key = tuple(titles)
        for known, value in self._kept:
            if known is key or known == key:
                return value
        value = compute(key)
        self._kept.appendleft((key, value))
        return value
