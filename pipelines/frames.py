"""What every step is told, and what it sends on: frames of a bucket, packed as Arrow, and counts.

A text's bucket is the first bits of its fingerprint, so rows sorted by fingerprint are in the order
of their buckets, and a bucket's rows are one slice.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from dssm_tf import __version__
from dssm_tf.common.errors import UserError
from pipelines.options import PreprocessOptions
from pipelines.output import PARTS, create
from pipelines.texts import BlockList

NAMESPACE = "preprocess"
Counts = dict[str, int]
_MOST_HELD = 2_000_000
_PROGRESS = "progress"


_KEYS = {
    "fp": pl.UInt64, "q": pl.UInt64, "t": pl.UInt64, "text": pl.String, "word": pl.String,
    "position": pl.Int64,
}  # fmt: skip
SUMMED = {
    "pairs": ("q", "t", "clicks", "rows", "weighted", "robots"),
    "texts": ("fp", "text", "clicks"),
    "corpus": ("fp", "text", "clicks"),
    "sums": ("fp", "clicks", "all", "queries", "listed"),
    "words": ("fp", "word", "times"),
    "cells": ("q", "t", "position", "impressions", "clicks"),
}
"""What is added up, by kind: first the keys, of which one is a fingerprint, then whole numbers.

Pairs have the fingerprints of query and title, clicks, rows, weighted clicks in thousandths, and
clicks of dropped sessions, which are no evidence but keep the title from becoming a negative.
Texts, as logged or of a corpus, have the clicks of each. Sums of titles have clicks of the training
part and of all parts in thousandths, pairs of the training part, and whether the title is in the
table; words, how often they are in the training part; cells, the clicks of a position.
"""


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
        if isinstance(self.data, bytes):
            return pl.read_ipc(self.data)
        path, start, length = self.data
        with Path(path).open("rb") as file:
            file.seek(start)
            return pl.read_ipc(file.read(length))


Block = tuple[int, Part | None]
"""A bucket's number, and a part of it; None if nothing may be in it."""
Group = tuple[int, Iterable[Part | None]]
"""A bucket's number, and its parts."""


def as_ipc(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow IPC."""
    return frame.write_ipc(None, compression="lz4").getvalue()


def typed(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a kind of `SUMMED`, with its columns and in the order of its keys."""
    found = frame.select(pl.col(name).cast(_KEYS.get(name, pl.Int64)) for name in SUMMED[kind])
    return found.sort(_keys(kind))


def _keys(kind: str) -> list[str]:
    return [name for name in SUMMED[kind] if name in _KEYS]


def parts_of(parts: Iterable[Part | None]) -> dict[str, list[Part]]:
    """The parts of a group by kind; none of a kind that is not there."""
    found: dict[str, list[Part]] = defaultdict(list)
    for part in filter(None, parts):
        found[part.kind].append(part)
    return found


def cut(frame: pl.DataFrame, by: str, bits: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The slices of each bucket of a frame that is sorted by a fingerprint; none are empty."""
    buckets = (frame[by].to_numpy() >> np.uint64(63 - bits)) >> np.uint64(1)  # 64 is no shift
    numbers, starts, counts = np.unique(buckets, return_index=True, return_counts=True)
    for bucket, *rows in np.stack([numbers.astype(int), starts, counts], 1).tolist():
        yield bucket, frame.slice(*rows)


def fold(parts: Iterable[Part], kind: str) -> pl.DataFrame:
    """The sums of parts of a kind of `SUMMED`, in the order of its keys.

    Memory is that of what is distinct, however many parts there are.
    """
    keys = _keys(kind)
    held, rows, most = [typed(kind, pl.DataFrame(schema=SUMMED[kind]))], 0, _MOST_HELD
    for part in parts:
        held.append(part.frame)
        rows += len(held[-1])
        if rows > most:
            held = [pl.concat(held).group_by(keys).sum()]
            rows = len(held[0])
            most = max(most, 2 * rows)
    return pl.concat(held).group_by(keys).sum().sort(keys)


@beam.ptransform_fn
def step(
    elements: Any, function: Callable[..., Iterator[Any]], *arguments: Any, tags: Sequence[str] = ()
) -> Any:
    """A step with several outputs: its main one, counts, and others.

    Args:
        elements: the input.
        function: of an element and the arguments; yields elements of the main output, and others
            in a `TaggedOutput`.
        *arguments: of the function, side inputs among them.
        tags: of the other outputs.
    """
    return elements | "Each" >> beam.FlatMap(function, *arguments).with_outputs(
        "counts", *tags, main="main"
    )


@beam.ptransform_fn
def by_bucket(blocks: tuple[Any, ...], *arguments: Any, tags: Sequence[str] = ()) -> Any:
    """A `step` of all that belongs to a bucket: its elements are `Group`s."""
    # Any runner encodes a key that is an int alike.
    joined = blocks | "Join" >> beam.Flatten().with_output_types(tuple[int, Any])
    grouped = joined | "Group" >> beam.GroupByKey()
    return grouped | "Buckets" >> step(*arguments, tags=tags)


def counted(counts: Mapping[str, Any]) -> TaggedOutput:
    """Counts above 0 as a step yields them; the runner counts rows, too."""
    found = {name: int(number) for name, number in counts.items() if number}
    for name, number in found.items():
        if name.startswith(("rows", "dropped ")):
            Metrics.counter(NAMESPACE, name).inc(number)
    return TaggedOutput("counts", found)


def sum_counts(many: Iterable[Counts]) -> Counts:
    """The sums of counts by name."""
    total: Counter[str] = Counter()
    for counts in many:
        total.update(counts)
    return dict(total)


class Written(NamedTuple):
    """A file that a worker wrote."""

    kind: str
    bucket: int
    path: str
    rows: int
    size: int
    digest: str


def write_part(directory: str, kind: str, bucket: int, rows: int, data: bytes) -> Written:
    """Writes a file under a name no retry shares.

    A runner may run the same work twice; only the path of the attempt that counts is passed on.
    """
    path = FileSystems.join(directory, PARTS, f"{kind}-{uuid.uuid4().hex}")
    with create(path) as file:
        file.write(data)
    return Written(kind, bucket, path, rows, len(data), sha256(data).hexdigest())


class Release:
    """The version of this package; only a worker that has the same unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _same_release, (__version__,)


def _same_release(version: str) -> Release:
    if version != __version__:
        raise UserError(
            f"Worker {gethostname()} has dssm-tf {__version__}, and this command is of {version}; "
            "install the same version on both."
        )
    return Release()


class Settings(NamedTuple):
    """What every step is told.

    Args:
        options: of the command.
        bits: there are 2 ** bits buckets, and files of a kind.
        directory: where workers write.
        store: of a run on this machine, a directory that all workers share for what travels (the
            runner would hold it in memory until the pipeline ends) and for progress.
        block_list: queries to drop.
        release: of the launcher.
    """

    options: PreprocessOptions
    bits: int
    directory: str
    store: str | None = None
    block_list: BlockList = BlockList()
    release: Release = Release()

    def send(
        self,
        kind: str,
        frame: pl.DataFrame,
        tag: str = "",
        *,
        source: int = 0,
        by: str = "fp",
        to: int | None = None,
    ) -> Iterator[Any]:
        """A step's output: rows as parts, packed or in one file of the store.

        Args:
            kind: what the rows are.
            frame: the rows; sorted by fingerprint, if they are not `SUMMED`.
            tag: of the output; the main one if empty.
            source: the bucket that they come from.
            by: the column with the fingerprint whose bucket gets a row.
            to: the bucket that gets all of them.
        """
        frame = typed(kind, frame) if kind in SUMMED else frame
        slices = cut(frame, by, self.bits) if to is None else [(to, frame)]
        found = [(bucket, as_ipc(rows)) for bucket, rows in slices]
        path, start = Path(self.store or "", uuid.uuid4().hex), 0
        if self.store and found:
            path.write_bytes(b"".join(data for _, data in found))
        for bucket, data in found:
            where = (str(path), start, len(data))
            block = bucket, Part(kind, source, where if self.store else data)
            yield TaggedOutput(tag, block) if tag else block
            start += len(data)

    def write(self, kind: str, bucket: int, rows: int, data: bytes) -> Written:
        """Writes a file, see `write_part`."""
        return write_part(self.directory, kind, bucket, rows, data)

    def tell(self, what: str, number: int) -> None:
        """Reports that more is done, if the launcher is on this machine."""
        if self.store:
            with suppress(OSError), Path(self.store, _PROGRESS).open("a") as file:
                file.write(f"{number} {what}\n")


def told(store: Path) -> str:
    """What workers have told so far."""
    totals: Counter[str] = Counter()
    with suppress(OSError):
        for line in (store / _PROGRESS).read_text().splitlines():
            number, what = line.split(" ", 1)
            totals[what] += int(number)
    return ", ".join(f"{number:,} {what}" for what, number in totals.items())
