"""The output: parts that workers write, and the move when all is complete."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, refuse_others
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


@contextmanager
def output_directory(path: str, *, overwrite: bool) -> Iterator[Output]:
    """Yields an `Output` that becomes `path` when the block succeeds.

    On the local file system one rename makes it appear. Elsewhere there is no such rename: the
    files are moved one by one, the spec last, without which no reader accepts it.

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
    for chosen in ([name for name in names if name not in (PARTS, SPEC)], [SPEC]):
        FileSystems.rename(*([FileSystems.join(at, n) for n in chosen] for at in (source, target)))


def _remote_files(path: str) -> list[str]:
    try:
        found = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
    except BeamIOError:
        return []
    return [metadata.path for metadata in found]
