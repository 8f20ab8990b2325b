"""What every step is told, and how it sends rows on and writes files."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import polars as pl
from apache_beam.pvalue import TaggedOutput

from pipelines.frames import cut, keep
from pipelines.options import PreprocessOptions
from pipelines.output import write_part
from pipelines.progress import Progress


class Written(NamedTuple):
    """A file that a worker wrote."""

    kind: str
    bucket: int
    path: str
    rows: int
    size: int
    digest: str


class Settings(NamedTuple):
    """What every step is told.

    Args:
        options: of the command.
        bits: there are 2 ** bits buckets, and files of a kind.
        directory: where workers write.
        store: see `frames.keep`.
        progress: where workers on this machine report.
    """

    options: PreprocessOptions
    bits: int
    directory: str
    store: str | None = None
    progress: Progress = Progress()

    @property
    def buckets(self) -> int:
        """How many there are."""
        return 1 << self.bits

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
        blocks = keep(((at, kind, source, rows) for at, rows in slices), self.store)
        return (TaggedOutput(tag, block) for block in blocks) if tag else blocks

    def written(self, kind: str, bucket: int, rows: int, data: bytes) -> Written:
        """Writes a file."""
        path = write_part(self.directory, kind, [data])
        return Written(kind, bucket, path, rows, len(data), sha256(data).hexdigest())
