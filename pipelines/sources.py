"""Which files to read, in which pieces, and the rows of one piece."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import glob
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.tables.columns import CLICK_LOG, Column
from dssm_tf.tables.formats import TABLES, format_of
from dssm_tf.tables.layout import MAX_LINE_BYTES, Layout
from dssm_tf.tables.lines import reading
from dssm_tf.tables.read import Table, open_table
from pipelines.output import is_local, open_bytes

MIN_PIECE_BYTES = 1 << 20
MAX_PIECE_BYTES = 8 << 20
PIECES = 64
IGNORE_FLAG = "--ignore-other-files"
_LISTED = 10


class Piece(NamedTuple):
    """A part of a file that one worker reads.

    Args:
        number: position in reading order over all files; orders the rejects.
        path: the file.
        names: the header's; None if the piece holds the header, or has no use for one.
        start: first byte.
        end: byte after the last; None for a whole file.
        pieces: how many pieces of the plan this one stands for.
    """

    number: int
    path: str
    names: tuple[str, ...] | None = None
    start: int = 0
    end: int | None = None
    pieces: int = 1


class InputFiles(NamedTuple):
    """Files to read.

    Args:
        files: each once, in path order.
        notes: what was left out, in sentences.
    """

    files: list[FileMetadata]
    notes: list[str]

    @property
    def paths(self) -> list[Path]:
        """The paths of local files."""
        return [Path(file.path) for file in self.files]


def find_files(
    patterns: Sequence[str], flag: str = "--input", *, ignore_others: bool = False
) -> InputFiles:
    """The tables of paths, globs and directories, each once, in path order.

    In a directory, files of known formats are read. Names that begin with `_` or `.` or end with
    `~` are left out; anything else is an error.

    Args:
        patterns: of the user.
        flag: that they are from, for messages.
        ignore_others: whether files of other formats and subdirectories are left out.

    Raises:
        UserError: a pattern matches nothing, a file is of no known format, or a directory holds
            something else.
    """
    files: dict[str, FileMetadata] = {}
    notes = []
    matches = [file for pattern in patterns for file in _match(pattern, flag, ignore_others)]
    for file in sorted(matches, key=lambda file: file.path):
        first = files.setdefault(_identity(file.path), file)
        if first is not file:
            notes.append(f"{flag}: {file.path} is the same file as {first.path}; it is read once")
    if len(notes) > _LISTED:
        notes[_LISTED:] = [f"{flag}: {len(notes) - _LISTED:,} more files are given twice"]
    in_order = sorted(files.values(), key=lambda file: file.path)
    filled = [file for file in in_order if file.size_in_bytes]
    if files and not filled:
        raise UserError(f"{flag} {' '.join(patterns)} holds no rows; is it the right file?")
    return InputFiles(filled, notes)


def _identity(path: str) -> str:
    """What two names of one file have in common."""
    if not is_local(path):
        return path
    status = os.stat(path)
    return f"{status.st_dev}:{status.st_ino}" if status.st_ino else os.path.realpath(path)


def plan(
    files: Sequence[FileMetadata],
    layout: Layout,
    columns: Sequence[Column] = CLICK_LOG,
) -> list[Piece]:
    """Cuts files into pieces, reading each header; the cut depends on the files alone.

    Quoted cells of CSV may hold line ends, so `whole_if_quoted` has to look at its pieces.

    Args:
        files: tables.
        layout: what their names do not say.
        columns: those that a header must have, and others.

    Raises:
        UserError: a file cannot be read, or its header lacks a column.
    """
    total = sum(file.size_in_bytes for file in files)
    size = min(MAX_PIECE_BYTES, max(MIN_PIECE_BYTES, total // PIECES))
    pieces: list[Piece] = []
    for file in files:
        path, end = file.path, file.size_in_bytes
        with opened(Piece(0, path), layout) as table:
            cut = format_of(path) != "parquet" and table.splittable
            names: tuple[str, ...] = ()
            if format_of(path) != "jsonl":
                table.check(columns)
                names = table.names
        for start in range(0, end, size if cut else end):
            stop = min(start + size, end) if cut else None
            pieces.append(Piece(len(pieces), path, names if start else None, start, stop))
    return pieces


@beam.ptransform_fn
def whole_if_quoted(pieces: Any) -> Any:
    """Puts the pieces of CSV files that have quotes together again.

    A quoted cell may hold line ends, so such a file cannot be read from the middle. Workers look
    for quotes, because the launcher would have to read all of a file.

    Input:  PCollection[Piece].
    Output: PCollection[Piece]; a file with quotes is one piece.
    """
    return (
        pieces
        | "Look for quotes" >> beam.Map(_with_quotes)
        | "By file" >> beam.GroupByKey()
        | "Join pieces" >> beam.FlatMap(_joined)
        | "Spread pieces" >> beam.Reshuffle()
    )


def may_have_quotes(pieces: Iterable[Piece]) -> bool:
    """Whether any piece is part of a CSV file."""
    return any(piece.end is not None and format_of(piece.path) == "csv" for piece in pieces)


def _with_quotes(piece: Piece) -> tuple[str, tuple[Piece, bool]]:
    """A piece under its file's path, and whether a quote is in it."""
    quoted = False
    if may_have_quotes([piece]):
        with reading(piece.path), open_bytes(piece.path) as file:
            file.seek(piece.start)
            left = (piece.end or 0) - piece.start
            while left and not quoted and (block := file.read(min(left, 1 << 20))):
                left -= len(block)
                quoted = b'"' in block
    return piece.path, (piece, quoted)


def _joined(file: tuple[str, Iterable[tuple[Piece, bool]]]) -> Iterator[Piece]:
    """The pieces of a file; one, if any has a quote."""
    pieces = sorted(file[1])
    if not any(quoted for _, quoted in pieces):
        yield from (piece for piece, _ in pieces)
        return
    first = pieces[0][0]
    yield first._replace(names=None, start=0, end=None, pieces=len(pieces))


@contextmanager
def opened(piece: Piece, layout: Layout) -> Iterator[Table]:
    """Opens a piece of a file of any of Beam's file systems; its lines are numbered from 1.

    Raises:
        UserError: the file cannot be read.
    """
    layout = replace(layout, names=piece.names)
    with reading(piece.path):
        raw = open_bytes(piece.path)  # what is packed is unpacked by the table
        if piece.end is not None:
            with raw as file:
                raw = BytesIO(_lines_within(file, piece.start, piece.end))
    with open_table(piece.path, layout=layout, raw=raw) as table:
        yield table


def _lines_within(file: IO[bytes], start: int, end: int) -> bytes:
    """The lines that start within a range of a file; of the last one, as much as a row may have."""
    file.seek(max(start - 1, 0))
    # A line that starts before belongs to the piece before; it may go on behind this one.
    part = b"" if start else b"\n"
    while not part.endswith(b"\n"):
        part = file.readline(min(max(end - file.tell(), 0), MAX_LINE_BYTES))
        if not part:
            return b""
    lines = file.read(max(end - file.tell(), 0))
    if lines and not lines.endswith(b"\n"):
        lines += file.readline(MAX_LINE_BYTES + 1)
    return lines


def _match(pattern: str, flag: str, ignore_others: bool) -> list[FileMetadata]:
    """The tables that a pattern means; a hidden one only if it is named itself."""
    try:
        tables, others = _match_local(pattern) if is_local(pattern) else _match_remote(pattern)
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{flag} {pattern} cannot be listed: {error}.") from error
    if others and not ignore_others:
        listed = ", ".join(sorted(others)[:_LISTED])
        more = f" and {len(others) - _LISTED:,} more" if len(others) > _LISTED else ""
        raise UserError(
            f"{flag} {pattern} holds what is no table: {listed}{more}. Tables end in "
            f"{', '.join(f'.{format}' for format in TABLES)} or .ndjson, all but Parquet also in "
            f".gz. Move the others away, name the files to read, or leave the others out with "
            f"{IGNORE_FLAG}."
        )
    if not tables:
        raise UserError(
            f"{flag} {pattern} matches no file that is a table; check that the path or the bucket "
            "exists and that you may list it."
        )
    return tables


def _is_hidden(name: str) -> bool:
    """Whether a name is one of those that programs leave beside tables."""
    return name.startswith(("_", ".")) or name.endswith("~")


def _match_local(pattern: str) -> tuple[list[FileMetadata], list[str]]:
    """The tables of a path, a directory or a glob, and the names of what else is there."""
    path = Path(pattern)  # of this very name, whatever brackets are in it
    if path.is_file():
        format_of(path)
        return [FileMetadata(str(path), path.stat().st_size)], []
    if path.is_dir():
        inside = [*path.iterdir()]
    else:
        inside = [file for file in map(Path, glob(pattern, recursive=True)) if not file.is_dir()]
    tables, others = [], []
    for file in inside:
        if _is_hidden(file.name):
            continue
        if file.is_file() and format_of(file.name, otherwise=""):
            tables.append(FileMetadata(str(file), file.stat().st_size))
        else:
            others.append(f"{file.name}/" if file.is_dir() else file.name)
    return tables, others


def _match_remote(pattern: str) -> tuple[list[FileMetadata], list[str]]:
    """The tables of a file, a glob or a directory of a store, and the names of what else is there.

    What is in subdirectories has their names before its own.
    """
    matches = FileSystems.match([pattern, FileSystems.join(pattern, "*")])
    tables, others = [], []
    for file in (file for match in matches for file in match.metadata_list):
        name = file.path.rstrip("/").rpartition("/")[2]
        if file.path == pattern:
            format_of(file.path)
            tables.append(file)
        elif not _is_hidden(name):
            if format_of(name, otherwise="") and not file.path.endswith("/"):
                tables.append(file)
            else:
                others.append(name)
    return tables, others
