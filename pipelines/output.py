"""The output directory: files that workers write, and the move when all of them are complete."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.data.format import SPEC, VOCABULARY

CURVE = "examination_curve.tsv"
REJECTS = "rejects.tsv"
REPORT_JSON = "report.json"
OUTPUT_PATTERNS = (
    SPEC, "*-[0-9]*-of-[0-9]*.tfrecord.gz", "*-[0-9]*-of-[0-9]*.parquet", CURVE, REJECTS,
    "report.html", "report.md", REPORT_JSON, VOCABULARY,
)  # fmt: skip
"""Patterns of all file names of an output. A directory with other files is never replaced."""
PARTS = "parts"
"""Directory for files of workers until they get their final names."""


def is_local(path: str) -> bool:
    """Whether a path is on this machine's file system."""
    return "://" not in path


def create(path: str) -> IO[bytes]:
    """Opens a file for writing bytes as they are, on any file system."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def open_bytes(path: str) -> IO[bytes]:
    """Opens a file for reading bytes as they are, on any file system."""
    # Beam's decompression ignores that a file is truncated.
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def save(directory: str, name: str, value: object) -> None:
    """Writes a value for the launcher as JSON into the `PARTS` of an output."""
    with create(FileSystems.join(directory, PARTS, name)) as file:
        file.write(json.dumps(value).encode("ascii"))


def load(path: str) -> Any:
    """Loads a value that `save` wrote; tuples become lists.

    Raises:
        UserError: the file is not JSON.
    """
    with open_bytes(path) as file:
        content = file.read()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}. Another program changed it.") from None


class PendingOutput(NamedTuple):
    """An output directory before it is complete.

    Args:
        workers: workers write into its `PARTS`; on the same file system as the result.
        local: a directory on this machine for files of the launcher. Files in its `PARTS` do not
            become part of the result.
    """

    workers: str
    local: Path

    def rename(self, names: Mapping[str, str]) -> None:
        """Renames files of workers; `names` maps each path to its name in the result."""
        targets = [FileSystems.join(self.workers, name) for name in names.values()]
        FileSystems.rename(list(names), targets)


@contextmanager
def output_directory(path: str, *, overwrite: bool) -> Iterator[PendingOutput]:
    """Yields a `PendingOutput` that becomes `path` when the block succeeds.

    On the local file system, one rename makes it appear. Other file systems cannot rename a
    directory: files are moved one by one, and the spec last, because no reader accepts a directory
    without it.

    Raises:
        UserError: `path` exists and may not be replaced, see `check_replaceable`, or it cannot be
            written.
    """
    if is_local(path):
        with atomic_directory(
            Path(path),
            owned_patterns=OUTPUT_PATTERNS if overwrite else (),
            overwrite_flag="" if overwrite else "--overwrite",
        ) as directory:
            yield from _with_parts(str(directory), directory)
        return
    parts = _probe(path)
    with tempfile.TemporaryDirectory() as local:
        try:
            yield from _with_parts(path, Path(local))
            for file in sorted(Path(local).iterdir(), key=lambda file: file.name == SPEC):
                with create(FileSystems.join(path, file.name)) as target, file.open("rb") as source:
                    shutil.copyfileobj(source, target)
        finally:
            with suppress(BeamIOError):  # a store without directories has nothing left to delete
                FileSystems.delete([parts + "/"])


def _with_parts(workers: str, local: Path) -> Iterator[PendingOutput]:
    """Yields the output with a directory `PARTS`, and removes this directory afterwards."""
    (local / PARTS).mkdir()
    yield PendingOutput(workers, local)
    shutil.rmtree(local / PARTS)


def _probe(path: str) -> str:
    """Creates `PARTS` on a remote store; raises UserError if the path exists or is not writable."""
    existing = None
    try:
        parts = FileSystems.join(path, PARTS)  # fails if the library of the store is missing
        with suppress(BeamIOError):
            existing = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
        if existing:
            raise UserError(f"{path} exists already; choose another name, or remove it first.")
        FileSystems.mkdirs(parts)
        with create(FileSystems.join(parts, "probe")) as file:
            file.write(b"-")
    except (MemoryError, UserError):
        raise
    except Exception as error:  # each store has its own exceptions
        reason = " ".join(str(error).split())
        raise UserError(f"--output {path} cannot be written: {reason}") from error
    return parts
