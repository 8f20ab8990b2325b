"""Which files to read, in which pieces, and the rows of one piece."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, cast

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import OptionError, UserError
from dssm_tf.tables import click_log
from dssm_tf.tables.click_log import FORMATS, BadRow, Columns, LogRow, Reject

BLOCK_BYTES = 1 << 20
MIN_PIECE_BYTES = 1 << 20
MAX_PIECE_BYTES = 32 << 20
PIECES = 64
CORPUS_FORMATS = (".tsv", ".tsv.gz")


class Piece(NamedTuple):
    """A part of a file that one worker reads.

    Args:
        number: position in reading order over all files; orders the rejects.
        file: position of the file.
        path: the file.
        format: a value of `FORMATS`.
        gzipped: whether the file is compressed, and therefore whole.
        columns: the header's names; empty where the format has none.
        start: first byte, or the row group of a Parquet file.
        end: byte after the last, -1 for all.
        first_line: line number of the first row where it is known, else 0: counted from the
            pieces before.
    """

    number: int
    file: int
    path: str
    format: str
    gzipped: bool
    columns: tuple[str, ...]
    start: int
    end: int
    first_line: int


def find_files(patterns: Sequence[str]) -> list[FileMetadata]:
    """The log files of paths, globs and directories, each once, in path order.

    Raises:
        UserError: a pattern matches nothing, or a file is of no known format.
    """
    found: dict[str, FileMetadata] = {}
    for pattern in patterns:
        for metadata in _match(pattern):
            found[metadata.path] = metadata
    files = [found[path] for path in sorted(found)]
    for metadata in files:
        _format(metadata.path)
    return [metadata for metadata in files if metadata.size_in_bytes] or _no_rows(patterns)


def plan(files: Sequence[FileMetadata]) -> list[Piece]:
    """Cuts files into pieces, reading each header; the cut depends on the files alone.

    Raises:
        UserError: a file cannot be read, or its header lacks `query` or `title`.
    """
    total = sum(metadata.size_in_bytes for metadata in files)
    size = min(MAX_PIECE_BYTES, max(MIN_PIECE_BYTES, total // PIECES))
    pieces: list[Piece] = []
    for file, metadata in enumerate(files):
        path = metadata.path
        kind, gzipped = _format(path)
        columns: tuple[str, ...] = ()
        if kind == "parquet":
            cuts = [(group, -1, line) for group, line in _row_groups(path)]
        else:
            if kind != "jsonl":
                columns = _header(path, kind, gzipped)
            if gzipped or kind == "csv":
                cuts = [(0, -1, 1)]
            else:
                cuts = [
                    (start, min(start + size, metadata.size_in_bytes), 0 if start else 1)
                    for start in range(0, metadata.size_in_bytes, size)
                ]
        for start, end, line in cuts:
            pieces.append(Piece(len(pieces), file, path, kind, gzipped, columns, start, end, line))
    return pieces


class PieceReader:
    """Iterates over the rows and rejects of one piece; `lines` counts its lines when done.

    Rejects carry line numbers within the piece, from 1, or in the file if the piece knows them.
    """

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.lines = 0

    def __iter__(self) -> Iterator[LogRow | Reject]:
        piece = self.piece
        try:
            if piece.format == "parquet":
                yield from _parquet_rows(piece)
                return
            with open_file(piece.path, piece.gzipped) as file:
                numbered = self._count(click_log.numbered(self._blocks(file)))
                columns = Columns(piece.columns, piece.path) if piece.columns else None
                if piece.format == "csv":
                    yield from click_log.csv_rows(
                        (line + b"\n" for _, line in numbered), columns, piece.path
                    )
                elif piece.format == "jsonl":
                    yield from click_log.jsonl_rows(numbered)
                elif columns is not None:
                    if piece.start == 0:
                        next(numbered, None)  # the header
                    yield from click_log.tsv_rows(numbered, columns)
        except (OSError, EOFError, zlib.error, BeamIOError) as error:
            raise UserError(f"{piece.path} cannot be read: {error}.") from error

    def _count(self, numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for number, line in numbered:
            self.lines = number
            yield number, line

    def _blocks(self, file: IO[bytes]) -> Iterator[bytes]:
        """The bytes of the lines that start in the piece, in blocks."""
        start, end = self.piece.start, self.piece.end
        if end < 0:
            while block := file.read(BLOCK_BYTES):
                yield block
            return
        at = start
        if start:
            file.seek(start - 1)
            skipped = _through_line_end(file)
            at = start - 1 + skipped
        else:
            file.seek(0)
        while at < end:
            block = file.read(min(BLOCK_BYTES, end - at))
            if not block:
                return
            at += len(block)
            yield block
            if at >= end and not block.endswith(b"\n"):
                yield from _rest_of_line(file)


def _rest_of_line(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(1 << 16):
        line_end = block.find(b"\n")
        if line_end >= 0:
            yield block[: line_end + 1]
            return
        yield block


def _through_line_end(file: IO[bytes]) -> int:
    """Moves past the next line end; returns how many bytes that took."""
    passed, at = 0, file.tell()
    while block := file.read(1 << 16):
        line_end = block.find(b"\n")
        if line_end >= 0:
            passed += line_end + 1
            file.seek(at + passed)
            return passed
        passed += len(block)
    return passed


def _match(pattern: str, flag: str = "--input") -> list[FileMetadata]:
    try:
        found = list(FileSystems.match([pattern])[0].metadata_list)
        # A directory matches itself on some file systems and nothing on others.
        if not any(_known(metadata.path) for metadata in found):
            inside = FileSystems.match([FileSystems.join(pattern, "*")])[0].metadata_list
            found = [metadata for metadata in inside if _known(metadata.path)] or found
    except (BeamIOError, ValueError) as error:
        raise OptionError(flag, f"{pattern} cannot be listed: {error}.") from error
    # As in a shell, a glob passes over hidden files; Beam's own does not.
    found = [one for one in found if one.path == pattern or not _hidden(one.path)]
    if not found:
        raise OptionError(flag, f"{pattern} matches no file.")
    return found


def _hidden(path: str) -> bool:
    return path.replace("\\", "/").rsplit("/", 1)[-1].startswith((".", "_"))


def _known(path: str) -> bool:
    return path.removesuffix(".gz").endswith(tuple(FORMATS))


def _format(path: str) -> tuple[str, bool]:
    stem = path.removesuffix(".gz")
    for suffix, kind in FORMATS.items():
        if stem.endswith(suffix) and not (kind == "parquet" and stem != path):
            return kind, stem != path
    raise UserError(
        f"{path} is of no known format; expected a name ending in "
        f"{', '.join(FORMATS)}, or .gz after the first three."
    )


def _no_rows(patterns: Sequence[str]) -> list[FileMetadata]:
    raise OptionError("--input", f"{' '.join(patterns)} holds no rows; is it the right log?")


def find_corpus(patterns: Sequence[str]) -> list[FileMetadata]:
    """The corpus files of paths, globs and directories, each once, in path order.

    Raises:
        UserError: a pattern matches nothing, a file is not a table or has no column `title`.
    """
    found = {one.path: one for pattern in patterns for one in _match(pattern, "--corpus")}
    for path in sorted(found):
        if not path.endswith(CORPUS_FORMATS):
            raise UserError(f"--corpus {path}: expected a {' or '.join(CORPUS_FORMATS)} file.")
        next(corpus_titles(path), None)  # a wrong header shows here, not in a worker
    return [found[path] for path in sorted(found)]


def corpus_titles(path: str) -> Iterator[str]:
    """The titles of a corpus file on one line each, without white space at their ends.

    Raises:
        UserError: naming the line: there is no column `title`, a row has not as many cells as
            the header, or the file cannot be read.
    """
    try:
        with open_file(path, path.endswith(".gz")) as file:
            rows = _table_rows(path, click_log.numbered(iter(lambda: file.read(BLOCK_BYTES), b"")))
            _, header = next(rows, (0, []))
            names = [name.strip().strip("\ufeff").strip().lower() for name in header]
            if names.count("title") != 1:
                raise UserError(
                    f"{path} has the columns {', '.join(names)[:200] or 'nothing'}; a corpus needs "
                    "one column 'title' in its header."
                )
            column = names.index("title")
            for at, cells in rows:
                if len(cells) != len(names):
                    raise UserError(
                        f"{path}:{at} has {len(cells)} cells; the header has {len(names)}."
                    )
                if text := cells[column].strip():
                    yield click_log.clean_text(text, "title")
    except (OSError, EOFError, zlib.error, BeamIOError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _table_rows(path: str, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, list[str]]]:
    """The cells of a table's lines, with their numbers; blank lines are no rows."""
    for at, line in lines:
        if len(line) > click_log.MAX_LINE_BYTES:
            raise UserError(
                f"{path}:{at} is longer than {click_log.MAX_LINE_BYTES:,} bytes; is it a table?"
            )
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise UserError(f"{path}:{at} is not UTF-8.") from None
        if text.strip():
            yield at, text.split("\t")


@contextmanager
def open_file(path: str, gzipped: bool) -> Iterator[IO[bytes]]:
    """Opens a file of any Beam file system; a truncated gzip file is an error."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        if gzipped:
            # Beam's own decompression passes over a truncated file in silence; this does not.
            with gzip.GzipFile(fileobj=raw) as file:
                yield cast(IO[bytes], file)
        else:
            yield raw


def _header(path: str, kind: str, gzipped: bool) -> tuple[str, ...]:
    try:
        with open_file(path, gzipped) as file:
            head = b""
            while b"\n" not in head and len(head) < click_log.MAX_LINE_BYTES:
                block = file.read(1 << 14)
                if not block:
                    break
                head += block
        line = head.split(b"\n")[0].removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} has a header that is not UTF-8; is it a click log?") from None
    except (OSError, EOFError, zlib.error, BeamIOError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
    if kind == "csv":
        import csv

        return Columns.of(next(csv.reader([line]), []), path).names
    return Columns.of(line.split("\t"), path).names


def _row_groups(path: str) -> list[tuple[int, int]]:
    """The row groups of a Parquet file, each with its first row's number."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        parquet = _parquet(file, path)
        Columns.of(parquet.schema_arrow.names, path)
        first, groups = 1, []
        for group in range(parquet.num_row_groups):
            groups.append((group, first))
            first += parquet.metadata.row_group(group).num_rows
    return groups


def _parquet(file: IO[bytes], path: str) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}.") from error


def _parquet_rows(piece: Piece) -> Iterator[LogRow | Reject]:
    import pyarrow

    with FileSystems.open(piece.path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        parquet = _parquet(file, piece.path)
        wanted = ("query", "title", "clicks", "impressions", "session_id")
        names = {
            name: name.strip().lower()
            for name in parquet.schema_arrow.names
            if name.strip().lower() in wanted
        }
        number = piece.first_line - 1
        try:
            batches = parquet.iter_batches(
                batch_size=8192, row_groups=[piece.start], columns=list(names)
            )
            for batch in batches:
                columns = [_values(batch.column(name)) for name in names]
                for values in zip(*columns, strict=True):
                    number += 1
                    row = dict(zip(names.values(), values, strict=True))
                    try:
                        yield click_log.mapping_row(row)
                    except BadRow as bad:
                        text = json.dumps(row, default=str, ensure_ascii=False)
                        yield click_log.reject(number, bad, text)
        except pyarrow.ArrowException as error:
            raise UserError(f"{piece.path} cannot be read: {error}.") from error


def _values(column: Any) -> list[Any]:
    """A column's values; bytes that are not UTF-8 become lone surrogates, which are rejected."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        column = column.cast(
            pyarrow.large_binary()
            if pyarrow.types.is_large_string(column.type)
            else pyarrow.binary()
        )
    return [
        value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        for value in column.to_pylist()
    ]
