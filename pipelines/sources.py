"""Which files to read, in which pieces, and the rows of one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import glob
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import polars as pl
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import OptionError
from dssm_tf.tables.cells import clean_text, text
from dssm_tf.tables.click_log import OPTIONAL, REQUIRED, log_blocks, position
from dssm_tf.tables.judgments import CORPUS_COLUMNS, corpus_title
from dssm_tf.tables.layout import MAX_LINE_BYTES, Layout, Reject
from dssm_tf.tables.reader import format_of, open_table
from dssm_tf.tables.table import Table, reading
from pipelines.output import is_local

MIN_PIECE_BYTES = 1 << 20
MAX_PIECE_BYTES = 8 << 20
PIECES = 64
_PLAIN = Layout()


class Piece(NamedTuple):
    """A part of a file that one worker reads.

    Args:
        number: position in reading order over all files; orders the rejects.
        file: position of the file.
        path: the file.
        names: the header's; None if the piece holds the header, or has no use for one.
        start: first byte, or the row group of a Parquet file.
        end: byte after the last, -1 for all.
    """

    number: int
    file: int
    path: str
    names: tuple[str, ...] | None = None
    start: int = 0
    end: int = -1


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
        raise OptionError(flag, f"{' '.join(patterns)} holds no rows; is it the right file?")
    return files


def plan(
    files: Sequence[FileMetadata],
    layout: Layout = _PLAIN,
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
    total = sum(metadata.size_in_bytes for metadata in files)
    size = min(MAX_PIECE_BYTES, max(MIN_PIECE_BYTES, total // PIECES))
    pieces: list[Piece] = []
    for file, metadata in enumerate(files):
        path, end = metadata.path, metadata.size_in_bytes
        kind = format_of(path)
        names: tuple[str, ...] = ()
        if kind != "jsonl":
            with _open(path, layout) as table:
                table.check_names(columns, optional)
                names, groups = table.names, table.row_groups
        if kind == "parquet":
            cuts = [(group, -1) for group in range(groups)]
        elif kind == "csv" or path.endswith(".gz") or not layout.by_bytes:
            cuts = [(0, -1)]
        else:
            cuts = [(start, min(start + size, end)) for start in range(0, end, size)]
        for start, stop in cuts:
            header = names if start else None
            pieces.append(Piece(len(pieces), file, path, header, start, stop))
    return pieces


class PieceReader:
    """Iterates over blocks of a piece: good rows, see `SCHEMA`, and rejects.

    Numbers are those of lines within the piece, from 1; `lines` counts them when all are read.
    Positions are read if asked for.
    """

    def __init__(self, piece: Piece, layout: Layout = _PLAIN, *, positions: bool = False) -> None:
        self.piece = piece
        self.lines = 0
        self._layout, self._positions = layout, positions

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, list[Reject]]]:
        with _open(self.piece.path, self._layout, self.piece) as table:
            for found, rejects in log_blocks(table, position if self._positions else None):
                yield cast(pl.DataFrame, pl.from_arrow(found)), rejects
            self.lines = table.lines


def find_corpus(
    patterns: Sequence[str], layout: Layout = _PLAIN, flag: str = "--corpus"
) -> list[FileMetadata]:
    """The corpus files of paths, globs and directories, each once, in path order.

    Raises:
        UserError: a pattern matches nothing, a file is not a table or has no column `title`.
    """
    files = find_files(patterns, flag)
    for metadata in files:
        next(
            corpus_titles(metadata.path, layout), None
        )  # a wrong header shows here, not in a worker
    return files


def corpus_titles(path: str, layout: Layout) -> Iterator[str]:
    """The titles of a corpus file on one line each, without white space at their ends.

    Raises:
        UserError: naming the line: there is no column `title`, a row is malformed, or the file
            cannot be read.
    """
    with _open(path, layout) as table:
        for _, title in table.rows(("title",), make=_title):
            if title:
                yield title


def titles_of(piece: Piece, layout: Layout) -> Iterator[tuple[str, str]]:
    """The ids and titles of a piece of a corpus.

    Raises:
        UserError: a row is malformed, or the file cannot be read.
    """
    with _open(piece.path, layout, piece) as table:
        for _, row in table.rows(CORPUS_COLUMNS, make=corpus_title):
            yield row


def _title(cells: Sequence[Any]) -> str:
    title = "" if cells[0] is None else text(cells[0], "title")
    return clean_text(title, "title") if title.strip() else ""


@contextmanager
def _open(path: str, layout: Layout, piece: Piece | None = None) -> Iterator[Table]:
    """Opens a file of any of Beam's file systems, or a piece of it."""
    with reading(path):
        # Beam's own decompression passes over a truncated file in silence; the table's does not.
        raw: Any = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    with raw as file:
        if piece is not None and piece.end >= 0:
            layout = replace(layout, names=piece.names)
            with reading(path):
                file = BytesIO(_lines_within(file, piece.start, piece.end))
        elif piece is not None:
            layout = replace(layout, row_group=piece.start)
        with open_table(path, layout=layout, raw=file) as table:
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
    try:
        found = _files(pattern)
        # A directory matches itself on some file systems and nothing on others.
        if not any(_known(metadata.path) for metadata in found):
            if Path(pattern).is_dir():
                inside = [_metadata(one) for one in Path(pattern).iterdir() if one.is_file()]
            else:
                inside = _files(FileSystems.join(pattern, "*"))
            found = [metadata for metadata in inside if _known(metadata.path)] or found
    except (BeamIOError, ValueError) as error:
        raise OptionError(flag, f"{pattern} cannot be listed: {error}.") from error
    # As in a shell, a glob passes over hidden files; Beam's own does not.
    found = [one for one in found if one.path == pattern or not _hidden(one.path)]
    if not found:
        raise OptionError(flag, f"{pattern} matches no file.")
    return found


def _files(pattern: str) -> list[FileMetadata]:
    """What a pattern matches: a local file of this very name, whatever brackets are in it."""
    if Path(pattern).exists():
        return [_metadata(pattern)]
    if is_local(pattern):  # Beam's own matches nothing in the current folder, and walks the rest
        return [_metadata(one) for one in glob(pattern, recursive=True) if Path(one).is_file()]
    return list(FileSystems.match([pattern])[0].metadata_list)


def _metadata(path: Path | str) -> FileMetadata:
    return FileMetadata(str(path), Path(path).stat().st_size)


def _hidden(path: str) -> bool:
    return path.replace("\\", "/").rsplit("/", 1)[-1].startswith((".", "_"))


def _known(path: str) -> bool:
    return format_of(path, otherwise="") != ""
