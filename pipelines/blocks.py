"""What travels between the steps: blocks of bytes, counts, and how they are combined."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics

from dssm_tf.common.errors import UserError
from pipelines.aggregation import add_counts
from pipelines.negatives import PoolEntry, smallest

NAMESPACE = "preprocess"
COUNTS, REJECTS, SESSIONS, TITLES, NGRAMS, POOL, FILES, SEEN = (
    "counts",
    "rejects",
    "sessions",
    "titles",
    "ngrams",
    "pool",
    "files",
    "seen",
)
Block = tuple[int, bytes]
"""A bucket's, piece's or shard's number, and some of what belongs to it, packed."""
Counts = dict[str, int]
FAILED = "failed "
"""What the names of counts begin with that are errors."""

T = TypeVar("T")


def until_error(rows: Iterable[T], counts: Counts) -> Iterator[T]:
    """Rows up to a `UserError`, which becomes a count: the launcher raises it again.

    Of an exception in a worker, Beam hands on no more than a traceback as text.
    """
    try:
        yield from rows
    except UserError as error:
        counts[f"{FAILED}{error}"] = 1


def pack(value: object) -> bytes:
    """One block as bytes: equal texts inside are stored once."""
    return pickle.dumps(value, protocol=5)


unpack: Callable[[bytes], Any] = pickle.loads


def unpack_all(blocks: Iterable[bytes]) -> Iterator[Any]:
    """The blocks of a group, one at a time."""
    return map(unpack, blocks)


def count_dropped(dropped: Counter[str]) -> dict[str, int]:
    """Reports drop reasons to Beam's own counters and names them for ours."""
    for reason, rows in dropped.items():
        Metrics.counter(NAMESPACE, f"dropped: {reason}").inc(rows)
    return {f"dropped {reason}": rows for reason, rows in dropped.items() if rows}


class SumCounts(beam.CombineFn):
    """Adds dictionaries of counts key by key."""

    def create_accumulator(self) -> dict[str, int]:  # noqa: D102
        return {}

    def add_input(self, accumulator: dict[str, int], element: dict[str, int]) -> dict[str, int]:  # noqa: D102
        add_counts(accumulator, element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[str, int]]) -> dict[str, int]:  # noqa: D102
        total: dict[str, int] = {}
        for accumulator in accumulators:
            add_counts(total, accumulator)
        return total

    def extract_output(self, accumulator: dict[str, int]) -> dict[str, int]:  # noqa: D102
        return accumulator


class SmallestRanks(beam.CombineFn):
    """Keeps the pool's titles, and one more, of the buckets' candidates.

    Input and output: blocks of PoolEntry.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def create_accumulator(self) -> list[PoolEntry]:  # noqa: D102
        return []

    def add_input(self, accumulator: list[PoolEntry], element: bytes) -> list[PoolEntry]:  # noqa: D102
        accumulator += unpack(element)
        if len(accumulator) > 2 * self._size:
            return smallest(accumulator, self._size)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[PoolEntry]]) -> list[PoolEntry]:  # noqa: D102
        return smallest((entry for one in accumulators for entry in one), self._size)

    def extract_output(self, accumulator: list[PoolEntry]) -> bytes:  # noqa: D102
        return pack(accumulator)
