"""What travels between the steps: blocks of bytes, counts, and how they are combined."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics

from dssm_tf.common.errors import UserError
from pipelines.aggregation import add_counts
from pipelines.negatives import smallest

NAMESPACE = "preprocess"
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


class _Stored(NamedTuple):
    """Where a block lies."""

    path: str
    start: int
    length: int


def keep(values: Iterable[tuple[int, object]], store: str | None) -> Iterator[Block]:
    """Blocks that a step sends on: packed, or where they lie.

    Args:
        values: keys, and what to pack.
        store: a directory that all workers share, for one file with all of them; a runner of this
            machine keeps every element in memory until the pipeline ends. None to send the bytes.
    """
    packed = ((key, pack(value)) for key, value in values)
    if store is None:
        yield from packed
        return
    path = Path(store) / uuid.uuid4().hex
    places = []
    with path.open("wb") as file:
        for key, data in packed:
            places.append((key, _Stored(str(path), file.tell(), len(data))))
            file.write(data)
    for key, place in places:
        yield key, pack(place)


def unpack_all(blocks: Iterable[bytes]) -> Iterator[Any]:
    """The blocks of a group, one at a time."""
    for block in blocks:
        value = pickle.loads(block)
        if isinstance(value, _Stored):
            with Path(value.path).open("rb") as file:
                file.seek(value.start)
                value = pickle.loads(file.read(value.length))
        yield value


def count_dropped(dropped: Counter[str]) -> dict[str, int]:
    """Reports drop reasons to Beam's own counters and names them for ours."""
    for reason, rows in dropped.items():
        Metrics.counter(NAMESPACE, f"dropped: {reason}").inc(rows)
    return {f"dropped {reason}": rows for reason, rows in dropped.items() if rows}


def step(
    function: Callable[..., Iterator[Any]], *arguments: Any, main: Any = Block, **tagged: Any
) -> Any:
    """A step with several outputs.

    Args:
        function: of an element and the arguments; yields elements of `main`, and others in a
            `TaggedOutput`.
        *arguments: of the function, side inputs among them.
        main: type of its elements.
        **tagged: type of the elements with each tag.
    """
    outputs = beam.FlatMap(function, *arguments).with_output_types(main, **tagged)
    return outputs.with_outputs(*tagged, main="main")


def sum_counts(many: Iterable[Counts]) -> Counts:
    """Adds counts name by name."""
    total: Counts = {}
    for counts in many:
        add_counts(total, counts)
    return total


def fill_pool(blocks: Iterable[bytes], size: int) -> bytes:
    """A block with the smallest entries, and one more, of blocks of PoolEntry, or of tuples."""
    return pack(smallest((entry for block in unpack_all(blocks) for entry in block), size))
