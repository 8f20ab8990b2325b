"""What every step is told, and what it sends on: frames of a bucket, packed as Arrow, and counts.

A text's bucket is the first bits of its fingerprint, so rows sorted by fingerprint are in the order
of their buckets, and a bucket's rows are one slice.
"""

from __future__ import annotations

import pickle
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
from apache_beam.pvalue import TaggedOutput

from dssm_tf import __version__
from dssm_tf.common.errors import UserError
from pipelines.options import PreprocessOptions
from pipelines.output import PARTS, create
from pipelines.texts import BlockList

Block = tuple[int, bytes]
"""A bucket's number, and a packed `Part`."""
Group = tuple[int, Iterable[bytes]]
"""A bucket's number, and its packed parts."""
Counts = dict[str, int]
_MOST_HELD = 2_000_000
_PROGRESS = "progress"


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


def keep(
    slices: Iterable[tuple[int, pl.DataFrame]], kind: str, source: int, store: str | None
) -> Iterator[Block]:
    """Parts that a step sends on: packed, or where they lie.

    Args:
        slices: rows, each with the bucket to send them to.
        kind: what the rows are.
        source: the bucket that they come from.
        store: a directory that all workers share, for one file with all of them; a runner of this
            machine keeps every element in memory until the pipeline ends. None to send the bytes.
    """
    found = [(bucket, as_ipc(frame)) for bucket, frame in slices]
    path, start = Path(store or "", uuid.uuid4().hex), 0
    if store and found:
        path.write_bytes(b"".join(data for _, data in found))
    for bucket, data in found:
        part = Part(kind, source, (str(path), start, len(data)) if store else data)
        yield bucket, pickle.dumps(part)
        start += len(data)


def as_ipc(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow IPC."""
    return frame.write_ipc(None, compression="lz4").getvalue()


def parts_of(blocks: Iterable[bytes]) -> dict[str, list[Part]]:
    """The parts of a group by kind; none of a kind that is not there."""
    found: dict[str, list[Part]] = defaultdict(list)
    for block in filter(None, blocks):
        part: Part = pickle.loads(block)
        found[part.kind].append(part)
    return found


def cut(frame: pl.DataFrame, by: str, bits: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The slices of each bucket of a frame that is sorted by a fingerprint; none are empty."""
    buckets = (frame[by].to_numpy() >> np.uint64(63 - bits)) >> np.uint64(1)  # 64 is no shift
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


@beam.ptransform_fn
def step(
    elements: Any,
    function: Callable[..., Iterator[Any]],
    *arguments: Any,
    main: Any = Block,
    **outputs: Any,
) -> Any:
    """A step with several outputs, one of which is counts.

    Args:
        elements: the input.
        function: of an element and the arguments; yields elements of `main`, and others in a
            `TaggedOutput`.
        *arguments: of the function, side inputs among them.
        main: type of its elements.
        **outputs: type of the elements with each tag.
    """
    outputs["counts"] = Counts
    typed = beam.FlatMap(function, *arguments).with_output_types(main, **outputs)
    return elements | "Each" >> typed.with_outputs(*outputs, main="main")


@beam.ptransform_fn
def by_bucket(blocks: tuple[Any, ...], *arguments: Any, **outputs: Any) -> Any:
    """A `step` of all that belongs to a bucket: its elements are `Group`s."""
    grouped = blocks | "Join" >> beam.Flatten() | "Group" >> beam.GroupByKey()
    return grouped | "Buckets" >> step(*arguments, **outputs)


def counted(counts: Mapping[str, Any]) -> TaggedOutput:
    """Counts above 0 as a step yields them."""
    return TaggedOutput("counts", {name: int(n) for name, n in counts.items() if n})


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
        store: of a run on this machine, a directory for what travels and for progress.
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
        """A step's output: rows as parts.

        Args:
            kind: what the rows are.
            frame: the rows, sorted by fingerprint.
            tag: of the output; the main one if empty.
            source: the bucket that they come from.
            by: the column with the fingerprint whose bucket gets a row.
            to: the bucket that gets all of them.
        """
        slices = cut(frame, by, self.bits) if to is None else [(to, frame)]
        blocks = keep(slices, kind, source, self.store)
        return (TaggedOutput(tag, block) for block in blocks) if tag else blocks

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
