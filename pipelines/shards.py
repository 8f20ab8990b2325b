"""Data exchanged between Beam steps: Arrow-encoded shards keyed by bucket, counts, output files.

The bucket of a text is the first bits of its fingerprint. Rows sorted by fingerprint are therefore
in the order of their buckets, and the rows of a bucket are one slice.
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
from dssm_tf.text.rules import TextRules
from pipelines.options import PreprocessOptions
from pipelines.output import PARTS, create
from pipelines.previous import PreviousTables

Counts = dict[str, int]
_MAX_PENDING_ROWS = 2_000_000
"""`sum_shards` collects about this many rows before it sums them."""
_FINGERPRINTS = {"query_fingerprint": pl.UInt64, "title_fingerprint": pl.UInt64}
_TEXT = {"fingerprint": pl.UInt64, "text": pl.String}
SUMMED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "pairs": (_FINGERPRINTS, ("clicks", "rows", "weighted", "robot_clicks")),
    "texts": (_TEXT, ("clicks", "sessions")),
    "corpus": (_TEXT, ("clicks",)),
    "sums": (
        {"fingerprint": pl.UInt64},
        ("clicks", "all_clicks", "queries", "in_table", "log_clicks"),
    ),
    "session_unclicked": ({"session_fingerprint": pl.UInt64, **_TEXT}, ("impressions",)),
    "unclicked": (_TEXT, ("impressions", "sessions")),
    "words": ({"fingerprint": pl.UInt64, "word": pl.String}, ("occurrences",)),
    "cells": ({**_FINGERPRINTS, "position": pl.Int64}, ("impressions", "clicks")),
}
"""Kinds of rows that are summed: the key columns with their types, and the int64 columns to sum.

- `pairs`: keyed by the fingerprints of query and title. `weighted` is clicks in thousandths.
  `robot_clicks` are those of dropped sessions. They do not count as clicks, but the title never
  becomes a negative of the query.
- `texts` and `corpus`: texts of the log and of the corpus with their clicks. For queries,
  `sessions` is the number of sessions with a click; a click without a session counts as one.
- `sums`: sums of a title. `clicks` are those of the training split and `all_clicks` those of both
  splits, in thousandths; `queries` counts training pairs; `in_table` is above 0 if the title is in
  the table of titles; `log_clicks` is the unweighted clicks of both splits.
- `session_unclicked`: impressions without a click, of a query in a session.
- `unclicked`: impressions without a click, of a query. `sessions` is the number of sessions with
  such an impression; it is 0 for rows without a session.
- `words`: number of occurrences in the training split. A corpus title without a click there counts
  once.
- `cells`: impressions and clicks of a pair at a position.
"""


class Shard(NamedTuple):
    """Some rows of a bucket.

    Args:
        kind: a key of `SUMMED`, or another name for rows that are not summed.
        data: an Arrow IPC stream; or where it is in a file: path, first byte and length.
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


OptionalBucketShard = tuple[int, Shard | None]
"""A bucket and one of its shards; None has no rows, so that empty buckets get files too."""
Group = tuple[int, Iterable[Shard | None]]
"""A bucket and all of its shards."""


def as_ipc(frame: pl.DataFrame) -> bytes:
    """Encodes a frame as an Arrow IPC stream, which is written much faster than an IPC file."""
    return frame.write_ipc_stream(None, compression="lz4").getvalue()


def cast_to_schema(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Selects and casts the columns of a kind of `SUMMED`, and sorts the rows by its keys."""
    keys, values = SUMMED[kind]
    schema: dict[Any, Any] = keys | dict.fromkeys(values, pl.Int64)
    return frame.select(*schema).cast(schema).sort(*keys)


def shards_by_kind(shards: Iterable[Shard | None]) -> dict[str, list[Shard]]:
    """Groups shards by kind; a kind without shards has an empty list."""
    groups: dict[str, list[Shard]] = defaultdict(list)
    for shard in filter(None, shards):
        groups[shard.kind].append(shard)
    return groups


def split_by_bucket(frame: pl.DataFrame, by: str, bits: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Splits a frame that is sorted by the fingerprint column `by`; yields no empty buckets."""
    buckets = (frame[by].to_numpy() >> np.uint64(63 - bits)) >> np.uint64(
        1
    )  # two shifts, because one shift by all 64 bits would have no effect
    distinct, starts, counts = np.unique(buckets, return_index=True, return_counts=True)
    for bucket, start, count in zip(
        distinct.tolist(), starts.tolist(), counts.tolist(), strict=True
    ):
        yield bucket, frame.slice(start, count)


def sum_shards(shards: Iterable[Shard], kind: str) -> pl.DataFrame:
    """Sums shards of a kind of `SUMMED` by its keys, and sorts the sums by these keys.

    Memory grows with the number of distinct keys, not with the number of shards.
    """
    keys, values = SUMMED[kind]
    frames = [cast_to_schema(kind, pl.DataFrame(schema=[*keys, *values]))]
    rows, limit = 0, _MAX_PENDING_ROWS
    for shard in shards:
        frames.append(shard.frame)
        rows += len(frames[-1])
        if rows > limit:
            frames = [pl.concat(frames).group_by(*keys).sum()]
            rows = len(frames[0])
            limit = max(limit, 2 * rows)
    return pl.concat(frames).group_by(*keys).sum().sort(*keys)


def multi_output(
    function: Callable[..., Iterator[Any]], *arguments: Any, tags: Sequence[str]
) -> Any:
    """A FlatMap with a main output, outputs `counts` and `statistics`, and further tagged outputs.

    Args:
        function: called with an element and the arguments; yields elements of the main output, and
            those of the other outputs as `TaggedOutput`.
        *arguments: further arguments of the function, including side inputs.
        tags: names of the outputs besides `main`, `counts` and `statistics`.
    """
    step = beam.FlatMap(function, *arguments)
    return step.with_outputs("counts", "statistics", *tags, main="main")


@beam.ptransform_fn
def by_bucket(shards: tuple[Any, ...], *arguments: Any, tags: Sequence[str] = ()) -> Any:
    """Groups shards by bucket and applies a `multi_output` step to each `Group`.

    Input:  tuple of PCollection[OptionalBucketShard].
    Output: the outputs of the function.
    """
    # Every runner encodes int keys the same way.
    joined = shards | "Join" >> beam.Flatten().with_output_types(tuple[int, Any])
    return joined | "Group" >> beam.GroupByKey() | "Buckets" >> multi_output(*arguments, tags=tags)


def count_output(counts: Mapping[str, Any]) -> TaggedOutput:
    """The element of a step's `counts` output; counts of 0 are left out."""
    return TaggedOutput("counts", {name: int(count) for name, count in counts.items() if count})


def sum_counts(all_counts: Iterable[Counts]) -> Counts:
    """Sums counts by name."""
    total: Counter[str] = Counter()
    for counts in all_counts:
        total.update(counts)
    return dict(total)


class OutputFile(NamedTuple):
    """A file written by a worker.

    Args:
        kind: kind of its rows, such as `titles`; `rejects` for malformed rows.
        bucket: bucket of the rows; for rejects, the number of the piece.
        path: its path.
        rows: number of rows; for rejects, the line of the first row in the piece.
        digest: SHA-256 of the content.
    """

    kind: str
    bucket: int
    path: str
    rows: int
    digest: str


def write_output_file(
    directory: str, kind: str, bucket: int, row_count: int, data: bytes
) -> OutputFile:
    """Writes a file under a unique name, so that retries do not overwrite each other.

    A runner may run the same work twice. Only the attempt that succeeds passes its path on.
    """
    path = FileSystems.join(directory, PARTS, f"{kind}-{uuid.uuid4().hex}")
    with create(path) as file:
        file.write(data)
    return OutputFile(kind, bucket, path, row_count, sha256(data).hexdigest())


class VersionGuard:
    """Raises UserError when it is unpickled by a worker with another version of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _check_version, (__version__,)


def _check_version(version: str) -> VersionGuard:
    if version != __version__:
        raise UserError(
            f"Worker {gethostname()} has dssm-tf {__version__}, but the launcher has {version}; "
            "install the same version on both."
        )
    return VersionGuard()


class BlockList(NamedTuple):
    """Words and full queries to drop.

    Args:
        words: a query that contains one of them is dropped.
        queries: normalized; a query that equals one of them is dropped.
        phrases: an entry without spaces that is several words, as in a script without spaces: the
            words with a space before, between and after them. A query that contains these words one
            after another is dropped.
    """

    words: Sequence[str] = ()
    queries: Sequence[str] = ()
    phrases: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str, rules: TextRules) -> BlockList:
        """Parses a file whose lines are `word`, `several words`, `=word` or `# comment`."""
        words: list[str] = []
        queries: list[str] = []
        phrases: list[str] = []
        for line in map(str.strip, text.splitlines()):
            key = rules.key(line)
            if line.startswith("#"):
                continue
            if line.startswith("=") or len(rules.chunks(line)) > 1:
                queries.append(key)
            elif " " in key:
                phrases.append(f" {key} ")
            else:
                words.append(key)
        return cls(words, queries, phrases)

    def blocks(self, queries: pl.Series) -> pl.Series:
        """A mask of the normalized queries to drop."""
        words, full_queries = (pl.Series(texts, dtype=pl.String).implode() for texts in self[:2])
        has_word = queries.str.split(" ").list.set_intersection(words).list.len() > 0
        blocked = has_word | queries.is_in(full_queries)
        if self.phrases:
            blocked |= (" " + queries + " ").str.contains_any(list(self.phrases))
        return blocked


class PipelineContext(NamedTuple):
    """Settings that every step receives.

    Args:
        options: options of the command.
        bits: there are `2 ** bits` buckets, and as many files of each kind.
        directory: directory for output files of workers.
        shard_directory: directory for shards, if all workers run on this machine; if it is None,
            the runner keeps all shards in memory until the pipeline ends.
        block_list: queries to drop.
        version_guard: refuses workers with another version than the launcher.
        previous: texts of an earlier output; texts that are not among them are new. Or None.
    """

    options: PreprocessOptions
    bits: int
    directory: str
    shard_directory: str | None = None
    block_list: BlockList = BlockList()
    version_guard: VersionGuard = VersionGuard()
    previous: PreviousTables | None = None

    def emit(
        self,
        kind: str,
        frame: pl.DataFrame,
        tag: str = "",
        *,
        bucket_column: str = "fingerprint",
        bucket: int | None = None,
    ) -> Iterator[Any]:
        """Yields rows as shards, encoded in the element or in one file of `shard_directory`.

        Args:
            kind: kind of the rows. Rows of a kind of `SUMMED` are cast and sorted.
            frame: the rows; must be sorted by fingerprint if the kind is not in `SUMMED`.
            tag: tag of the output; empty for the main output.
            bucket_column: the column with the fingerprint that determines the bucket of a row.
            bucket: the bucket of all rows, instead of `bucket_column`.
        """
        frame = cast_to_schema(kind, frame) if kind in SUMMED else frame
        slices: Iterable[tuple[int, pl.DataFrame]] = (
            split_by_bucket(frame, bucket_column, self.bits)
            if bucket is None
            else [(bucket, frame)]
        )
        encoded = [(row_bucket, as_ipc(rows)) for row_bucket, rows in slices]
        path, start = Path(self.shard_directory or "", uuid.uuid4().hex), 0
        if self.shard_directory and encoded:
            path.write_bytes(b"".join(data for _, data in encoded))
        for row_bucket, data in encoded:
            location = (str(path), start, len(data)) if self.shard_directory else data
            element = row_bucket, Shard(kind, location)
            yield TaggedOutput(tag, element) if tag else element
            start += len(data)
