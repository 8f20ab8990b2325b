"""Which files to read, in which pieces, and the rows of one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import glob
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import OPTIONAL, REQUIRED
from dssm_tf.tables.layout import MAX_LINE_BYTES, Layout
from dssm_tf.tables.lines import Table, reading
from dssm_tf.tables.reader import format_of, open_table
from pipelines.output import is_local, open_bytes

MIN_PIECE_BYTES = 1 << 20
MAX_PIECE_BYTES = 8 << 20
PIECES = 64


class Piece(NamedTuple):
    """A part of a file that one worker reads.

    Args:
        number: position in reading order over all files; orders the rejects.
        path: the file.
        names: the header's; None if the piece holds the header, or has no use for one.
        start: first byte.
        end: byte after the last; None for a whole file.
    """

    number: int
    path: str
    names: tuple[str, ...] | None = None
    start: int = 0
    end: int | None = None


def find_files(patterns: Sequence[str], flag: str = "--input") -> list[FileMetadata]:
    """The tables of paths, globs and directories, each once, in path order.

    Raises:
        UserError: a pattern matches nothing, or a file is of no known format.
    """
    found = {one.path: one for pattern in patterns for one in _match(pattern, flag)}
    for path in found:
        format_of(path)
    files = [found[path] for path in sorted(found) if found[path].size_in_bytes]
    if found and not files:
        raise UserError(f"{flag} {' '.join(patterns)} holds no rows; is it the right file?")
    return files


def plan(
    files: Sequence[FileMetadata],
    layout: Layout,
    columns: Sequence[str] = REQUIRED,
    optional: Sequence[str] = OPTIONAL,
) -> list[Piece]:
    """Cuts files into pieces, reading each header; the cut depends on the files alone.

    Args:
        files: tables.
        layout: what their names do not say.
        columns: that a header must have; by default those of a click log.
        optional: that it may have, once.

    Raises:
        UserError: a file cannot be read, or its header lacks a column.
    """
    total = sum(one.size_in_bytes for one in files)
    size = min(MAX_PIECE_BYTES, max(MIN_PIECE_BYTES, total // PIECES))
    pieces: list[Piece] = []
    for one in files:
        path, end, kind = one.path, one.size_in_bytes, format_of(one.path)
        names: tuple[str, ...] = ()
        if kind != "jsonl":
            with opened(Piece(0, path), layout) as table:
                table.check_names(columns, optional)
                names = table.names
        by_lines = kind in ("tsv", "jsonl") or (kind == "csv" and _unquoted(path))
        cut = by_lines and layout.is_utf8 and not path.endswith(".gz")
        for start in range(0, end, size if cut else end):
            stop = min(start + size, end) if cut else None
            pieces.append(Piece(len(pieces), path, names if start else None, start, stop))
    return pieces


def _unquoted(path: str) -> bool:
    """Whether each line of a CSV file is a row: nothing is in quotes, and lines end as usual."""
    with open_bytes(path) as file:
        blocks = iter(lambda: file.read(1 << 20), b"")
        return all(b'"' not in block and b"\n" in block for block in blocks)


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
    # A line that starts before belongs to the piece before; nobody knows how long it is.
    while start and (part := file.readline(MAX_LINE_BYTES)) and not part.endswith(b"\n"):
        pass
    lines = file.read(max(end - file.tell(), 0))
    if lines and not lines.endswith(b"\n"):
        lines += file.readline(MAX_LINE_BYTES + 1)
    return lines


def _match(pattern: str, flag: str) -> list[FileMetadata]:
    """The tables that a pattern means; a hidden one only if it is named itself."""
    try:
        if is_local(pattern):
            path = Path(pattern)  # of this very name, whatever brackets are in it
            inside = path.iterdir() if path.is_dir() else map(Path, glob(pattern, recursive=True))
            paths = [path] if path.is_file() else inside
            found = [FileMetadata(str(one), one.stat().st_size) for one in paths if one.is_file()]
        else:
            places = FileSystems.match([pattern, FileSystems.join(pattern, "*")])
            found = [one for place in places for one in place.metadata_list]
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{flag} {pattern} cannot be listed: {error}.") from error
    found = [
        one
        for one in found
        if one.path == pattern
        or (format_of(one.path, otherwise="") and Path(one.path).name[0] not in "._")
    ]
    if not found:
        raise UserError(
            f"{flag} {pattern} matches no file that is a table; check that the path or the bucket "
            "exists and that you may list it."
        )
    return found
