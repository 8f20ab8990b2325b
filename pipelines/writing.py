"""Files of the output: record shards, parts written by workers, and the move when complete."""

from __future__ import annotations

import heapq
import os
import shutil
import struct
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from google_crc32c import value as crc32c

from dssm_tf.common.checksums import CHECKSUMS
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, refuse_others
from dssm_tf.data.clicked_titles import CLICKED_TITLES
from dssm_tf.data.counts import RECORD_COUNTS
from dssm_tf.data.schema import FEATURE_SPEC, TITLES, VOCABULARY

CURVE = "examination_curve.tsv"
REJECTS = "rejects.tsv"
REPORT_JSON = "report.json"
REPORT_HTML = "report.html"
REQUEST = "command.json"
OWN = (
    FEATURE_SPEC, "*-[0-9]*-of-[0-9]*.tfrecord.gz", CHECKSUMS, CLICKED_TITLES, CURVE, RECORD_COUNTS,
    REJECTS, REPORT_HTML, REPORT_JSON, REQUEST, TITLES, VOCABULARY,
)  # fmt: skip
"""Names of all files of an output, as patterns: a directory of others is never replaced."""
PARTS = "parts"
_GZIP_LEVEL = 1  # fingerprints hardly compress; higher levels cost more than they save

MERGED_AT_ONCE = 100


def is_local(path: str) -> bool:
    """Whether a path is on this machine's file system."""
    return "://" not in path


class Shards:
    """The record files of all splits; a file's *place* is its number among them.

    Args:
        counts: files by split, at least one each.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        self._first = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))

    def place(self, split: str, key: int) -> int:
        """The place of the file that holds the record with a key."""
        return self._first[split] + key % self.counts[split]

    def split(self, place: int) -> str:
        """The split that a place belongs to."""
        return max((first, split) for split, first in self._first.items() if first <= place)[1]

    def name(self, place: int) -> str:
        """`train-00003-of-00010.tfrecord.gz`."""
        split = self.split(place)
        shard = place - self._first[split]
        return f"{split}-{shard:05d}-of-{self.counts[split]:05d}.tfrecord.gz"


def tfrecord(record: bytes) -> bytes:
    """A record framed as TFRecord: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, _masked(length), record, _masked(record)))


def gzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A gzip stream without name and time, so that equal data make equal files."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    yield from map(compressor.compress, chunks)
    yield compressor.flush()


def create(path: str) -> IO[bytes]:
    """Opens a file for writing bytes as they are, on any file system."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def open_bytes(path: str) -> IO[bytes]:
    """Opens a file for reading bytes as they are, on any file system."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def write_part(directory: str, kind: str, chunks: Iterable[bytes]) -> str:
    """Writes a worker's file under a name no retry shares; returns its path.

    A runner may run the same work twice; only the path of the attempt that counts is passed on.
    """
    path = FileSystems.join(directory, PARTS, f"{kind}-{uuid.uuid4().hex}")
    with create(path) as file:
        for chunk in chunks:
            file.write(chunk)
    return path


def merged(
    parts: Sequence[str], scratch: Path, order: Callable[[bytes], Any] | None = None
) -> Iterator[bytes]:
    """The lines of files that are each in an order, in that order, few files open at a time.

    Args:
        parts: the files.
        scratch: a directory for longer parts.
        order: key of a line; the line itself if not given.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as aside, ExitStack() as stack:
        while len(parts) > MERGED_AT_ONCE:
            starts = range(0, len(parts), MERGED_AT_ONCE)
            longer = [f"{aside}/{len(parts)}-{start}" for start in starts]
            for start, path in zip(starts, longer, strict=True):
                with Path(path).open("wb") as file:
                    file.writelines(merged(parts[start : start + MERGED_AT_ONCE], scratch, order))
            parts = longer
        files = [stack.enter_context(open_bytes(part)) for part in parts]
        yield from heapq.merge(*files, key=order)


class Output:
    """A directory in the making.

    Args:
        workers: where workers write; on the same file system as the result.
        local: a directory of this machine for the files that the launcher writes.
        scratch: one for what is no part of the result.
    """

    def __init__(self, workers: str, local: Path, scratch: Path) -> None:
        self.workers = workers
        self.local = local
        self.scratch = scratch

    def take(self, parts: Mapping[str, str]) -> None:
        """Gives workers' parts their names in the result."""
        names = [FileSystems.join(self.workers, name) for name in parts.values()]
        FileSystems.rename(list(parts), names)

    def record_files(self) -> dict[str, int]:
        """The bytes of the record shards taken, by name."""
        if is_local(self.workers):  # where a bracket is a letter of the name, not of a pattern
            sizes = {one.name: one.stat().st_size for one in self.local.glob("*.tfrecord.gz")}
        else:
            files = FileSystems.match([FileSystems.join(self.workers, "*.tfrecord.gz")])[0]
            sizes = {
                FileSystems.split(one.path)[1]: one.size_in_bytes for one in files.metadata_list
            }
        return dict(sorted(sizes.items()))


@contextmanager
def output_directory(path: str, *, overwrite: bool) -> Iterator[Output]:
    """Yields an `Output` that becomes `path` when the block succeeds.

    On the local file system one rename makes it appear. Elsewhere there is no such rename: the
    files are moved one by one, the feature spec last, without which no reader accepts it.

    Raises:
        UserError: `path` exists and may not be replaced.
    """
    if is_local(path):
        with atomic_directory(Path(path), own=OWN if overwrite else ()) as directory:
            (directory / PARTS).mkdir()
            yield Output(str(directory), directory, directory / PARTS)
            shutil.rmtree(directory / PARTS)
        return
    with _remote_directory(path.rstrip("/"), overwrite=overwrite) as output:
        yield output


def refuse(path: str, inputs: Iterable[str] = (), *, overwrite: bool) -> None:
    """Raises UserError early when `path` exists and may not be replaced.

    Args:
        path: the output.
        inputs: files that are read, which must not lie in it.
        overwrite: whether an output of preprocess may be replaced.
    """
    for one in inputs:
        if _real(one).startswith(_real(path).rstrip("/") + "/"):
            raise UserError(f"{path} holds the input {one}; choose another --output.")
    if is_local(path):
        local = Path(path)
        if local.is_file():
            raise UserError(f"{path} is a file; --output names a directory.")
        if not overwrite and local.is_dir() and any(local.iterdir()):
            raise UserError(f"{path} exists already; choose another name, or add --overwrite.")
        refuse_others(local, OWN)
        return
    names = [FileSystems.split(one)[1] for one in _remote_files(path)]
    if names and not overwrite:
        raise UserError(f"{path} exists already; choose another name, or add --overwrite.")
    if strangers := [name for name in names if not any(fnmatchcase(name, own) for own in OWN)]:
        raise UserError(
            f"{path} is not replaced, because it holds {strangers[0]}, which preprocess did not "
            "write; choose another --output, or move it away first."
        )


def _real(path: str) -> str:
    return os.path.realpath(path) if is_local(path) else path


@contextmanager
def _remote_directory(path: str, *, overwrite: bool) -> Iterator[Output]:
    refuse(path, overwrite=overwrite)
    aside = f"{path}.incomplete-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as local, tempfile.TemporaryDirectory() as scratch:
        try:
            FileSystems.mkdirs(FileSystems.join(aside, PARTS))
            yield Output(aside, Path(local), Path(scratch))
            for file in sorted(Path(local).iterdir()):
                with create(FileSystems.join(aside, file.name)) as target, file.open("rb") as own:
                    shutil.copyfileobj(own, target)
            if overwrite and (old := _remote_files(path)):
                FileSystems.delete(old)
            _move_files(aside, path)
        finally:
            for directory in (FileSystems.join(aside, PARTS), aside):
                # A store without directories has nothing left of an emptied one.
                with suppress(BeamIOError):
                    FileSystems.delete([directory + "/"])


def _move_files(source: str, target: str) -> None:
    names = [file[len(source) :].strip("/") for file in _remote_files(source)]
    FileSystems.mkdirs(target)
    for chosen in ([name for name in names if name not in (PARTS, FEATURE_SPEC)], [FEATURE_SPEC]):
        FileSystems.rename(*([FileSystems.join(at, n) for n in chosen] for at in (source, target)))


def _remote_files(path: str) -> list[str]:
    try:
        found = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
    except BeamIOError:
        return []
    return [metadata.path for metadata in found]


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
