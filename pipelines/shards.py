"""What every step is told, and what it sends on: frames of a bucket, packed as Arrow, and counts.

A text's bucket is the first bits of its fingerprint, so rows sorted by fingerprint are in the order
of their buckets, and a bucket's rows are one slice.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from dssm_tf import __version__
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import Rules
from pipelines.options import PreprocessOptions
from pipelines.output import PARTS, create

Counts = dict[str, int]
_MOST_HELD = 2_000_000


_PRINTS = {"q": pl.UInt64, "t": pl.UInt64}
_TEXT = {"fp": pl.UInt64, "text": pl.String}
SUMMED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "pairs": (_PRINTS, ("clicks", "rows", "weighted", "robots")),
    "texts": (_TEXT, ("clicks",)),
    "corpus": (_TEXT, ("clicks",)),
    "sums": ({"fp": pl.UInt64}, ("clicks", "all", "queries", "listed")),
    "words": ({"fp": pl.UInt64, "word": pl.String}, ("times",)),
    "cells": ({**_PRINTS, "position": pl.Int64}, ("impressions", "clicks")),
}
"""What is added up, by kind: the keys, of which one is a fingerprint, and whole numbers.

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
        data: an Arrow IPC stream; or its file, first byte and length.
    """

    kind: str
    data: bytes | tuple[str, int, int]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        if isinstance(self.data, bytes):
            return pl.read_ipc_stream(self.data)
        path, start, length = self.data
        with Path(path).open("rb") as file:
            file.seek(start)
            return pl.read_ipc_stream(file.read(length))


Block = tuple[int, Part | None]
"""A bucket's number, and a part of it; None if nothing may be in it."""
Group = tuple[int, Iterable[Part | None]]
"""A bucket's number, and its parts."""


def as_ipc(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow IPC: a stream, which takes microseconds where a file takes hundreds."""
    return frame.write_ipc_stream(None, compression="lz4").getvalue()


def typed(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a kind of `SUMMED`, with its columns and in the order of its keys."""
    keys, numbers = SUMMED[kind]
    schema: dict[Any, Any] = keys | dict.fromkeys(numbers, pl.Int64)
    return frame.select(*schema).cast(schema).sort(*keys)


def parts_of(parts: Iterable[Part | None]) -> dict[str, list[Part]]:
    """The parts of a group by kind; none of a kind that is not there."""
    found: dict[str, list[Part]] = defaultdict(list)
    for part in filter(None, parts):
        found[part.kind].append(part)
    return found


def cut(frame: pl.DataFrame, by: str, bits: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The slices of each bucket of a frame that is sorted by a fingerprint; none are empty."""
    buckets = (frame[by].to_numpy() >> np.uint64(63 - bits)) >> np.uint64(1)  # 64 is no shift
    distinct, starts, counts = np.unique(buckets, return_index=True, return_counts=True)
    for bucket, start, count in zip(
        distinct.tolist(), starts.tolist(), counts.tolist(), strict=True
    ):
        yield bucket, frame.slice(start, count)


def fold(parts: Iterable[Part], kind: str) -> pl.DataFrame:
    """The sums of parts of a kind of `SUMMED`, in the order of its keys.

    Memory is that of what is distinct, however many parts there are.
    """
    keys, numbers = SUMMED[kind]
    held = [typed(kind, pl.DataFrame(schema=[*keys, *numbers]))]
    rows, most = 0, _MOST_HELD
    for part in parts:
        held.append(part.frame)
        rows += len(held[-1])
        if rows > most:
            held = [pl.concat(held).group_by(*keys).sum()]
            rows = len(held[0])
            most = max(most, 2 * rows)
    return pl.concat(held).group_by(*keys).sum().sort(*keys)


def outputs(function: Callable[..., Iterator[Any]], *arguments: Any, tags: Sequence[str]) -> Any:
    """A step with a main output, counts, and others.

    Args:
        function: of an element and the arguments; yields elements of the main output, and others
            in a `TaggedOutput`.
        *arguments: of the function, side inputs among them.
        tags: of the other outputs.
    """
    return beam.FlatMap(function, *arguments).with_outputs("counts", *tags, main="main")


@beam.ptransform_fn
def by_bucket(blocks: tuple[Any, ...], *arguments: Any, tags: Sequence[str] = ()) -> Any:
    """A step, see `outputs`, of all that belongs to a bucket: its elements are `Group`s."""
    # Any runner encodes a key that is an int alike.
    joined = blocks | "Join" >> beam.Flatten().with_output_types(tuple[int, Any])
    return joined | "Group" >> beam.GroupByKey() | "Buckets" >> outputs(*arguments, tags=tags)


def counted(counts: Mapping[str, Any]) -> TaggedOutput:
    """Counts above 0 as a step yields them."""
    return TaggedOutput("counts", {name: int(number) for name, number in counts.items() if number})


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
    digest: str


def write_part(directory: str, kind: str, bucket: int, rows: int, data: bytes) -> Written:
    """Writes a file under a name no retry shares.

    A runner may run the same work twice; only the path of the attempt that counts is passed on.
    """
    path = FileSystems.join(directory, PARTS, f"{kind}-{uuid.uuid4().hex}")
    with create(path) as file:
        file.write(data)
    return Written(kind, bucket, path, rows, sha256(data).hexdigest())


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


class BlockList(NamedTuple):
    """Words and whole queries to drop.

    Args:
        words: a query that holds one of them is dropped.
        queries: normalised; a query that equals one is dropped.
    """

    words: Sequence[str] = ()
    queries: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str, rules: Rules) -> BlockList:
        """From a file's lines: `word`, `several words`, `=word` and `# comment`."""
        words: list[str] = []
        queries: list[str] = []
        for line in map(str.strip, text.splitlines()):
            key = rules.key(line)
            if line.startswith("#"):
                continue
            if line.startswith("=") or " " in key:
                queries.append(key)
            else:
                words.append(key)
        return cls(words, queries)

    def blocks(self, queries: pl.Series) -> pl.Series:
        """Whether each normalised query is to be dropped."""
        words, whole = (pl.Series(one, dtype=pl.String).implode() for one in self)
        hit = queries.str.split(" ").list.set_intersection(words).list.len() > 0
        return hit | queries.is_in(whole)


class Settings(NamedTuple):
    """What every step is told.

    Args:
        options: of the command.
        bits: there are 2 ** bits buckets, and files of a kind.
        directory: where workers write.
        store: of a run on this machine, a directory that all workers share for what travels (the
            runner would hold it in memory until the pipeline ends).
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
        by: str = "fp",
        to: int | None = None,
    ) -> Iterator[Any]:
        """A step's output: rows as parts, packed or in one file of the store.

        Args:
            kind: what the rows are.
            frame: the rows; sorted by fingerprint, if they are not `SUMMED`.
            tag: of the output; the main one if empty.
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
            block = bucket, Part(kind, (str(path), start, len(data)) if self.store else data)
            yield TaggedOutput(tag, block) if tag else block
            start += len(data)
