"""What travels between the steps: frames of a bucket, packed as Arrow, and counts.

A text's bucket is the first bits of its fingerprint, so rows sorted by fingerprint are in the order
of their buckets, and a bucket's rows are one slice.
"""

from __future__ import annotations

import pickle
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.metrics import Metrics

from dssm_tf.common.errors import UserError

NAMESPACE = "preprocess"
Block = tuple[int, bytes]
"""A bucket's or piece's number, and a packed `Part`."""
Counts = dict[str, int]
FAILED = "failed "
"""What the names of counts begin with that are errors."""
_MOST_HELD = 2_000_000

T = TypeVar("T")


class Part(NamedTuple):
    """Some of what belongs to a bucket.

    Args:
        kind: what the rows are.
        source: the bucket that they come from.
        data: Arrow IPC; or its file, first byte and length.
    """

    kind: str
    source: int
    data: bytes | tuple[str, int, int]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        data = self.data
        if not isinstance(data, bytes):
            path, start, length = data
            with Path(path).open("rb") as file:
                file.seek(start)
                data = file.read(length)
        return pl.read_ipc(BytesIO(data))


def keep(
    frames: Iterable[tuple[int, str, int, pl.DataFrame]], store: str | None
) -> Iterator[Block]:
    """Parts that a step sends on: packed, or where they lie.

    Args:
        frames: bucket to send to, kind, source, rows.
        store: a directory that all workers share, for one file with all of them; a runner of this
            machine keeps every element in memory until the pipeline ends. None to send the bytes.
    """
    packed = ((bucket, kind, source, as_ipc(frame)) for bucket, kind, source, frame in frames)
    if store is None:
        for bucket, kind, source, data in packed:
            yield bucket, pickle.dumps(Part(kind, source, data))
        return
    path, places = Path(store) / uuid.uuid4().hex, []
    with path.open("wb") as file:
        for bucket, kind, source, data in packed:
            places.append((bucket, Part(kind, source, (str(path), file.tell(), len(data)))))
            file.write(data)
    for bucket, part in places:
        yield bucket, pickle.dumps(part)


def parts_of(blocks: Iterable[bytes]) -> dict[str, list[Part]]:
    """The parts of a group by kind; none of a kind that is not there."""
    found: dict[str, list[Part]] = defaultdict(list)
    for block in filter(None, blocks):
        part: Part = pickle.loads(block)
        found[part.kind].append(part)
    return found


def as_ipc(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow IPC."""
    out = BytesIO()
    frame.write_ipc(out, compression="lz4")
    return out.getvalue()


def cut(frame: pl.DataFrame, by: str, bits: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The slices of each bucket of a frame that is sorted by a fingerprint; none are empty."""
    if not bits:
        yield from [(0, frame)] if len(frame) else []
        return
    buckets = frame[by].to_numpy() >> np.uint64(64 - bits)
    at = np.searchsorted(buckets, np.arange((1 << bits) + 1, dtype=np.uint64))
    for bucket in np.flatnonzero(np.diff(at)).tolist():
        yield bucket, frame[int(at[bucket]) : int(at[bucket + 1])]


def fold(parts: Sequence[Part], keys: Sequence[str], schema: Mapping[str, Any]) -> pl.DataFrame:
    """The sums of parts by keys, in the order of the keys.

    Memory is that of what is distinct, however many parts there are.

    Args:
        parts: of one kind.
        keys: columns; all others are added up.
        schema: of the parts.
    """
    held = [pl.DataFrame(schema=schema)]
    rows, most = 0, _MOST_HELD
    for part in parts:
        held.append(part.frame)
        rows += len(held[-1])
        if rows > most:
            held = [pl.concat(held).group_by(keys).sum()]
            rows = len(held[0])
            most = max(most, 2 * rows)
    return pl.concat(held).group_by(keys).sum().sort(keys)


def until_error(rows: Iterable[T], counts: Counts) -> Iterator[T]:
    """Rows up to a `UserError`, which becomes a count: the launcher raises it again.

    Of an exception in a worker, Beam hands on no more than a traceback as text.
    """
    try:
        yield from rows
    except UserError as error:
        counts[f"{FAILED}{error}"] = 1


def count_dropped(dropped: Mapping[str, int]) -> Counts:
    """Reports drop reasons to Beam's own counters and names them for ours."""
    for reason, rows in dropped.items():
        Metrics.counter(NAMESPACE, f"dropped: {reason}").inc(rows)
    return {f"dropped {reason}": rows for reason, rows in dropped.items() if rows}


@beam.ptransform_fn
def step(
    elements: Any,
    function: Callable[..., Iterator[Any]],
    *arguments: Any,
    main: Any = Block,
    **outputs: Any,
) -> Any:
    """A step with several outputs.

    Args:
        elements: the input.
        function: of an element and the arguments; yields elements of `main`, and others in a
            `TaggedOutput`.
        *arguments: of the function, side inputs among them.
        main: type of its elements.
        **outputs: type of the elements with each tag.
    """
    typed = beam.FlatMap(function, *arguments).with_output_types(main, **outputs)
    return elements | "Each" >> typed.with_outputs(*outputs, main="main")


@beam.ptransform_fn
def by_bucket(blocks: Any, *arguments: Any, **outputs: Any) -> Any:
    """A `step` of all that belongs to a bucket: its elements are (bucket, packed parts)."""
    return blocks | "Group" >> beam.GroupByKey() | "Buckets" >> step(*arguments, **outputs)


def add_counts(total: Counts, other: Mapping[str, int]) -> None:
    """Adds counts name by name."""
    for name, count in other.items():
        total[name] = total.get(name, 0) + count


def sum_counts(many: Iterable[Counts]) -> Counts:
    """The sums of counts by name."""
    total: Counts = {}
    for counts in many:
        add_counts(total, counts)
    return total


def histogram(name: str, values: pl.Series) -> Counts:
    """How often each value is there, as counts."""
    sizes, times = np.unique(values.to_numpy(), return_counts=True)
    return {f"{name} {size}": int(n) for size, n in zip(sizes.tolist(), times, strict=True)}
