"""Finds input files, divides them into pieces, and opens a piece."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import glob
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import DATA_FILE_HINT, refuse_special_file
from dssm_tf.tables.columns import CLICK_LOG, Column
from dssm_tf.tables.formats import TABLES, format_of
from dssm_tf.tables.layout import MAX_LINE_BYTES, Layout
from dssm_tf.tables.lines import reading
from dssm_tf.tables.read import Table, open_table
from pipelines.output import is_local, open_bytes

MIN_PIECE_BYTES = 1 << 20
MAX_PIECE_BYTES = 8 << 20
PIECES = 64
"""Minimum number of pieces, if that makes none smaller than `MIN_PIECE_BYTES`."""
IGNORE_FLAG = "--ignore-other-files"
_MAX_LISTED = 10
_WILDCARDS = re.compile(r"[*?[]")


class Piece(NamedTuple):
    """A range of bytes of a file, which one worker reads.

    Args:
        number: index in reading order over all files; orders the rejects.
        path: path of the file.
        names: names of the columns; None if the piece contains the header or needs no names.
        start: first byte.
        end: byte after the last; None for the full file.
        pieces: number of planned pieces that this one replaces.
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
        notes: sentences about files that were left out.
    """

    files: list[FileMetadata]
    notes: list[str]

    @property
    def paths(self) -> list[Path]:
        """The paths of local files."""
        return [Path(file.path) for file in self.files]


def find_files(
    patterns: Sequence[str],
    flag: str = "--input",
    *,
    ignore_others: bool = False,
    hint: str = "",
) -> InputFiles:
    """Finds the tables of paths, globs and directories, each once, in path order.

    In a directory, files of known formats are read. Names that begin with `_` or `.` or end with
    `~` are left out, with all that is in such directories. Any other file or directory is an error.
    A glob also stands for the directories that it matches, unless it has `**`: then only for files.

    Args:
        patterns: paths, globs and directories.
        flag: name of the patterns in messages.
        ignore_others: whether to leave out files of other formats and subdirectories.
        hint: end of the message about empty files.

    Raises:
        UserError: all files are empty, a pattern matches nothing, a file has an unknown format, or
            a directory contains other files and `ignore_others` is False.
    """
    files: dict[str, FileMetadata] = {}
    notes = []
    matches = [file for pattern in patterns for file in _match(pattern, flag, ignore_others)]
    for file in sorted(matches, key=lambda file: file.path):
        first = files.setdefault(_identity(file.path), file)
        if first is not file:
            notes.append(f"{flag}: {file.path} is the same file as {first.path}; it is read once")
    if len(notes) > _MAX_LISTED:
        notes[_MAX_LISTED:] = [f"{flag}: {len(notes) - _MAX_LISTED:,} more files are repeated"]
    in_order = sorted(files.values(), key=lambda file: file.path)
    nonempty = [file for file in in_order if file.size_in_bytes]
    if files and not nonempty:
        raise UserError(f"{flag} {' '.join(patterns)} holds no rows; is it the right file?{hint}")
    return InputFiles(nonempty, notes)


def _identity(path: str) -> str:
    """A key that is equal for all paths of one file."""
    if not is_local(path):
        return path
    status = os.stat(path)
    return f"{status.st_dev}:{status.st_ino}" if status.st_ino else os.path.realpath(path)


def plan(
    files: Sequence[FileMetadata],
    layout: Layout,
    columns: Sequence[Column] = CLICK_LOG,
) -> list[Piece]:
    """Divides files into pieces and checks each header; pieces depend only on the files.

    Of several files, those without a header are skipped, such as an empty compressed one. Quoted
    cells of CSV may contain line ends; `join_if_quoted` checks the pieces for quotes.

    Args:
        files: tables.
        layout: encoding and column names of the files.
        columns: required and optional columns.

    Raises:
        UserError: a file cannot be read, its header lacks a column, or all files are empty.
    """
    total = sum(file.size_in_bytes for file in files)
    size = min(MAX_PIECE_BYTES, max(MIN_PIECE_BYTES, total // PIECES))
    pieces: list[Piece] = []
    for file in files:
        path, end = file.path, file.size_in_bytes
        with open_piece(Piece(0, path), layout) as table:
            splittable = format_of(path) != "parquet" and table.splittable
            names: tuple[str, ...] = ()
            if format_of(path) != "jsonl":
                if table.is_empty and len(files) > 1:
                    continue
                table.check(columns)
                names = table.names
        for start in range(0, end, size if splittable else end):
            stop = min(start + size, end) if splittable else None
            pieces.append(Piece(len(pieces), path, names if start else None, start, stop))
    if files and not pieces:
        paths = " ".join(file.path for file in files)
        raise UserError(f"{paths:.500} hold no rows; are they the right files?")
    return pieces


@beam.ptransform_fn
def join_if_quoted(pieces: Any) -> Any:
    """Joins the pieces of each CSV file that has quotes.

    A quoted cell may contain line ends, so such a file cannot be read from the middle. Workers look
    for quotes, because the launcher would have to read every file to its end.

    Input:  PCollection[Piece].
    Output: PCollection[Piece]; a file with quotes is one piece.
    """
    return (
        pieces
        | "Look for quotes" >> beam.Map(_find_quotes)
        | "By file" >> beam.GroupByKey()
        | "Join pieces" >> beam.FlatMap(_join_pieces)
        | "Spread pieces" >> beam.Reshuffle()
    )


def may_have_quotes(pieces: Iterable[Piece]) -> bool:
    """Whether any piece is part of a CSV file."""
    return any(piece.end is not None and format_of(piece.path) == "csv" for piece in pieces)


def join_quoted_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Joins the pieces of each CSV file that has quotes, in this process; see `join_if_quoted`."""
    by_path: dict[str, list[tuple[Piece, bool]]] = {}
    for piece in pieces:
        path, piece_and_quoted = _find_quotes(piece)
        by_path.setdefault(path, []).append(piece_and_quoted)
    for file in by_path.items():
        yield from _join_pieces(file)


def _find_quotes(piece: Piece) -> tuple[str, tuple[Piece, bool]]:
    """The path of a piece, the piece, and whether it contains a quote."""
    quoted = False
    if may_have_quotes([piece]):
        with reading(piece.path), open_bytes(piece.path) as file:
            file.seek(piece.start)
            remaining = (piece.end or 0) - piece.start
            while remaining and not quoted and (block := file.read(min(remaining, 1 << 20))):
                remaining -= len(block)
                quoted = b'"' in block
    return piece.path, (piece, quoted)


def _join_pieces(file: tuple[str, Iterable[tuple[Piece, bool]]]) -> Iterator[Piece]:
    """The pieces of a file, joined to one if any of them has a quote."""
    pieces = sorted(file[1])
    if not any(quoted for _, quoted in pieces):
        yield from (piece for piece, _ in pieces)
        return
    first = pieces[0][0]
    yield first._replace(names=None, start=0, end=None, pieces=len(pieces))


@contextmanager
def open_piece(piece: Piece, layout: Layout) -> Iterator[Table]:
    """Opens a piece of a file on any of Beam's file systems; its lines are numbered from 1.

    Raises:
        UserError: the file cannot be read.
    """
    layout = replace(layout, names=piece.names)
    with reading(piece.path):
        source = open_bytes(piece.path)  # the table decompresses it
        if piece.end is not None:
            with source as file:
                source = BytesIO(_lines_within(file, piece.start, piece.end))
    with open_table(piece.path, layout=layout, file=source) as table:
        yield table


def _lines_within(file: IO[bytes], start: int, end: int) -> bytes:
    """The lines that start in a range of bytes; the last is truncated to `MAX_LINE_BYTES`."""
    file.seek(max(start - 1, 0))
    # A line that starts before `start` belongs to an earlier piece; it may end after this piece.
    skipped = b"" if start else b"\n"
    while not skipped.endswith(b"\n"):
        skipped = file.readline(min(max(end - file.tell(), 0), MAX_LINE_BYTES))
        if not skipped:
            return b""
    lines = file.read(max(end - file.tell(), 0))
    if lines and not lines.endswith(b"\n"):
        lines += file.readline(MAX_LINE_BYTES + 1)
    return lines


def _match(pattern: str, flag: str, ignore_others: bool) -> list[FileMetadata]:
    """The tables that match a pattern; a hidden file only if the pattern is its path."""
    try:
        tables, others = _match_local(pattern) if is_local(pattern) else _match_remote(pattern)
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{flag} {pattern} cannot be listed: {error}.") from error
    if others and not ignore_others:
        listed = ", ".join(sorted(others)[:_MAX_LISTED])
        more = f" and {len(others) - _MAX_LISTED:,} more" if len(others) > _MAX_LISTED else ""
        raise UserError(
            f"{flag} {pattern} contains files that are not tables: {listed}{more}. Tables end in "
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
    """Whether a name is of a file that programs write next to tables, such as `_SUCCESS`."""
    return name.startswith(("_", ".")) or name.endswith("~")


def _is_hidden_below(path: str, pattern: str) -> bool:
    """Whether a path has a hidden name after the parts of its glob that have no wildcards."""
    fixed = list(takewhile(lambda name: not _WILDCARDS.search(name), pattern.split("/")))
    return any(map(_is_hidden, path.split("/")[len(fixed) :]))


def _match_local(pattern: str) -> tuple[list[FileMetadata], list[str]]:
    """The tables of a path, a directory or a glob, and the names of other entries.

    A glob without `**` also stands for the tables in the directories that it matches.
    """
    path = Path(pattern)  # a path may contain brackets
    if path.is_file():
        format_of(path)
        return [FileMetadata(str(path), path.stat().st_size)], []
    refuse_special_file(path, DATA_FILE_HINT)
    if path.is_symlink() and not path.exists():
        raise UserError(f"{path} is a link to {os.readlink(path)}, which does not exist.")
    is_recursive, folder = "**" in pattern, path if path.is_dir() else None
    tables, others = [], []
    for name in [pattern] if folder else glob(pattern, recursive=True):
        if not folder and _is_hidden_below(name, pattern):
            continue
        match = Path(name)
        entries = [match]
        if match.is_dir():
            entries = [] if is_recursive else [*match.iterdir()]
        for file in entries:
            if _is_hidden(file.name):
                continue
            if file.is_file() and format_of(file.name, otherwise=""):
                tables.append(FileMetadata(str(file), file.stat().st_size))
            else:
                others.append(f"{file.name}/" if file.is_dir() else file.name)
    return tables, others


def _match_remote(pattern: str) -> tuple[list[FileMetadata], list[str]]:
    """The tables of a file, glob or directory of a remote store, and the names of other entries.

    A glob without `**` also stands for the tables in the directories that it matches.
    """
    is_recursive = "**" in pattern
    patterns = [pattern] if is_recursive or not pattern.endswith("/") else []
    if not is_recursive:
        patterns.append(FileSystems.join(pattern, "**"))
    matches = FileSystems.match(patterns)
    files = {file.path: file for match in matches for file in match.metadata_list}
    # Below a directory that matches, a path has more parts than the pattern.
    parts = pattern.rstrip("/").count("/") + 1
    tables: list[FileMetadata] = []
    others: set[str] = set()
    for path, file in files.items():
        below = [] if is_recursive else path.split("/")[parts:]
        name = below[0] if below else path.rpartition("/")[2]
        if not name:  # the object of a directory itself
            continue
        if path == pattern:
            format_of(path)
            tables.append(file)
        elif not (_is_hidden(name) or _is_hidden_below(path, pattern)):
            if len(below) > 1:
                others.add(f"{name}/")
            elif format_of(name, otherwise=""):
                tables.append(file)
            else:
                others.add(name)
    return tables, [*others]
