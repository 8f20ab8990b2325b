"""The output: parts that workers write, and the move when all is complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NamedTuple

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.data.format import SPEC, VOCABULARY

CURVE = "examination_curve.tsv"
REJECTS = "rejects.tsv"
REPORT_JSON = "report.json"
REPORT_HTML = "report.html"
REQUEST = "command.json"
OWN = (
    SPEC, "*-[0-9]*-of-[0-9]*.tfrecord.gz", "*-[0-9]*-of-[0-9]*.parquet", CURVE, REJECTS,
    REPORT_HTML, REPORT_JSON, REQUEST, VOCABULARY,
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


class Output(NamedTuple):
    """A directory in the making.

    Args:
        workers: where workers write, in `PARTS`; on the same file system as the result.
        local: a directory of this machine for the files that the launcher writes.
        scratch: one for what is no part of the result.
    """

    workers: str
    local: Path
    scratch: Path

    def take(self, parts: Mapping[str, str]) -> None:
        """Gives workers' parts their names in the result."""
        if not is_local(self.workers) and (old := _remote_files(self.workers)):
            FileSystems.delete(old)  # and nothing that preprocess did not write
        names = [FileSystems.join(self.workers, name) for name in parts.values()]
        FileSystems.rename(list(parts), names)


@contextmanager
def output_directory(path: str, *, overwrite: bool) -> Iterator[Output]:
    """Yields an `Output` that becomes `path` when the block succeeds.

    On the local file system one rename makes it appear. Elsewhere there is no such rename: the
    files are moved one by one, the spec last, without which no reader accepts it.

    Raises:
        UserError: `path` exists and may not be replaced, or nothing can be written there.
    """
    if is_local(path):
        with atomic_directory(Path(path), own=OWN if overwrite else ()) as directory:
            (directory / PARTS).mkdir()
            yield Output(str(directory), directory, directory / PARTS)
            shutil.rmtree(directory / PARTS)
        return
    parts = _probe(path)
    with tempfile.TemporaryDirectory() as local, tempfile.TemporaryDirectory() as scratch:
        try:
            yield Output(path, Path(local), Path(scratch))
            for file in sorted(Path(local).iterdir(), key=lambda one: one.name == SPEC):
                with create(FileSystems.join(path, file.name)) as target, file.open("rb") as own:
                    shutil.copyfileobj(own, target)
        finally:
            with suppress(BeamIOError):  # a store without directories has nothing left of it
                FileSystems.delete([parts + "/"])


def _probe(path: str) -> str:
    """Makes the place for parts; refuses one where nothing can be written."""
    try:
        parts = FileSystems.join(path, PARTS)
        FileSystems.mkdirs(parts)
        with create(FileSystems.join(parts, "probe")) as file:
            file.write(b"-")
    except Exception as error:  # each store has its own
        reason = " ".join(str(error).split())
        raise UserError(f"--output {path} cannot be written: {reason}") from error
    return parts


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
    # What else is in a local directory, `atomic_directory` looks at.
    there = any(Path(path).glob("*")) if is_local(path) else _remote_files(path)
    if there and not overwrite:
        raise UserError(f"{path} exists already; choose another name, or add --overwrite.")


def _real(path: str) -> str:
    return os.path.realpath(path) if is_local(path) else path


def _remote_files(path: str) -> list[str]:
    """The files of an output that is there."""
    with suppress(BeamIOError):
        found = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
        names = [(one.path, FileSystems.split(one.path)[1]) for one in found]
        return [one for one, name in names if any(fnmatchcase(name, own) for own in OWN)]
    return []
