"""The output: parts that workers write, and the move when all is complete."""

from __future__ import annotations

import pickle
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
OWN = (
    SPEC, "*-[0-9]*-of-[0-9]*.tfrecord.gz", "*-[0-9]*-of-[0-9]*.parquet", CURVE, REJECTS,
    "report.html", "report.md", "report.json", VOCABULARY,
)  # fmt: skip
"""Names of all files of an output, as patterns: a directory of others is never replaced."""
PARTS = "parts"


def is_local(path: str) -> bool:
    """Whether a path is on this machine's file system."""
    return "://" not in path


def create(path: str) -> IO[bytes]:
    """Opens a file for writing bytes as they are, on any file system."""
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def open_bytes(path: str) -> IO[bytes]:
    """Opens a file for reading bytes as they are, on any file system."""
    # Beam's own decompression passes over a truncated file in silence.
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def save(directory: str, name: str, value: object) -> None:
    """Hands a value to the launcher, among the parts of an output."""
    with create(FileSystems.join(directory, PARTS, name)) as file:
        pickle.dump(value, file)


def load(path: str) -> Any:
    """What `save` has saved."""
    with open_bytes(path) as file:
        return pickle.load(file)


class Output(NamedTuple):
    """A directory in the making.

    Args:
        workers: where workers write, in `PARTS`; on the same file system as the result.
        local: a directory of this machine for the files that the launcher writes; what is in its
            `PARTS` is no part of the result.
    """

    workers: str
    local: Path

    def load(self, name: str) -> Any:
        """What a worker has saved."""
        return load(FileSystems.join(self.workers, PARTS, name))

    def take(self, parts: Mapping[str, str]) -> None:
        """Gives workers' parts their names in the result."""
        names = [FileSystems.join(self.workers, name) for name in parts.values()]
        FileSystems.rename(list(parts), names)


@contextmanager
def output_directory(path: str, *, overwrite: bool) -> Iterator[Output]:
    """Yields an `Output` that becomes `path` when the block succeeds.

    On the local file system one rename makes it appear. Elsewhere there is no such rename: the
    files are moved one by one, the spec last, without which no reader accepts it.

    Raises:
        UserError: `path` exists and may not be replaced, see `check_replaceable`, or nothing can be
            written there.
    """
    if is_local(path):
        with atomic_directory(Path(path), owned_patterns=OWN if overwrite else ()) as directory:
            yield from _filled(str(directory), directory)
        return
    parts = _probe(path)
    with tempfile.TemporaryDirectory() as local:
        try:
            yield from _filled(path, Path(local))
            for file in sorted(Path(local).iterdir(), key=lambda one: one.name == SPEC):
                with create(FileSystems.join(path, file.name)) as target, file.open("rb") as own:
                    shutil.copyfileobj(own, target)
        finally:
            with suppress(BeamIOError):  # a store without directories has nothing left of it
                FileSystems.delete([parts + "/"])


def _filled(workers: str, local: Path) -> Iterator[Output]:
    (local / PARTS).mkdir()
    yield Output(workers, local)
    shutil.rmtree(local / PARTS)


def _probe(path: str) -> str:
    """Makes the place for parts; refuses one where something is or nothing can be written."""
    parts, found = FileSystems.join(path, PARTS), None
    try:
        with suppress(BeamIOError):
            found = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
        FileSystems.mkdirs(parts)
        with create(FileSystems.join(parts, "probe")) as file:
            file.write(b"-")
    except Exception as error:  # each store has its own
        reason = " ".join(str(error).split())
        raise UserError(f"--output {path} cannot be written: {reason}") from error
    if found:
        raise UserError(f"{path} exists already; choose another name, or remove it first.")
    return parts
