"""Texts with ids out of files of any size, one after another.

| name | a text is | ids |
|---|---|---|
| `.txt`, `-` (standard input) | a line, blank ones included, so that row `i` is line `i` | none |
| `.tsv` | a cell below the header; tabs between, no quoting, blank lines left out | a column |
| `.csv` | a cell below the header; quoted as spreadsheets do | a column |
| `.jsonl` | a value of a line's object | a key |
| `.parquet` | a value | a column |

All but Parquet and standard input may be `.gz`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from dssm_tf.common.errors import UserError

SUFFIXES = (".txt", ".tsv", ".csv", ".jsonl", ".parquet")
TEXT_COLUMNS = {
    "title": ("title", "text"),
    "query": ("query", "text"),
    "passage": ("text", "title"),
}
ID_COLUMNS = {"title": ("doc_id", "id"), "query": ("query_id", "id"), "passage": ("id",)}
_SURROGATES = re.compile("[\ud800-\udfff]")
_PARQUET_ROWS = 8192


class Text(NamedTuple):
    """A text and its id, None where the input has none."""

    text: str
    id: str | None = None


@dataclass
class TextInput:
    """What `open_texts` found: the texts, to be read once.

    Args:
        rows: the texts.
        has_ids: whether every text has an id.
        done: the share of the input that was read, from 0 to 1; None if unknown.
    """

    rows: Iterator[Text]
    has_ids: bool = False
    done: Callable[[], float | None] = field(default=lambda: None)


@contextmanager
def open_texts(
    path: Path | str, side: str = "title", column: str | None = None, id_column: str | None = None
) -> Iterator[TextInput]:
    """Opens texts; columns are looked up before the first text is read.

    Args:
        path: a file of the module's table, `-` for standard input.
        side: `title`, `query` or `passage`: which columns are looked for when none is named.
        column: the column that holds the text.
        id_column: the column that holds the id.

    Raises:
        UserError: here or while reading, naming file and line: the file cannot
            be read, is not UTF-8, lacks a column or has a malformed row.
    """
    path = Path(path)
    wanted = _Wanted(str(path), side, column, id_column)
    suffix = ".txt" if str(path) == "-" else Path(path.name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES or path.name.endswith(".parquet.gz"):
        raise UserError(
            f"{path} is none of {', '.join(SUFFIXES)} (all but Parquet also .gz), nor - for "
            "standard input."
        )
    if suffix == ".txt" and (column or id_column):
        raise UserError(f"--column and --id-column name a column; {path} is read as a text a line.")
    if str(path) == "-":
        yield TextInput(_lines_of_text(_decoded("standard input", sys.stdin.buffer)))
        return
    try:
        raw = path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    with raw:
        if suffix == ".parquet":
            yield _parquet(raw, wanted)
            return
        size = path.stat().st_size
        with gzip.open(raw) if path.suffix == ".gz" else nullcontext(raw) as file:
            found = _READERS[suffix](_decoded(str(path), file), wanted)
            found.done = lambda: raw.tell() / size if size else None
            yield found


class _Wanted(NamedTuple):
    """Which columns are read."""

    where: str
    side: str
    column: str | None
    id_column: str | None

    def find(self, names: Sequence[str]) -> tuple[str, str | None]:
        """The column of the text, and of the id if there is one."""
        received = ", ".join(map(repr, names)) or "none"
        for option, name in (("--column", self.column), ("--id-column", self.id_column)):
            if name is not None and name not in names:
                raise UserError(
                    f"{self.where} has no column {name!r} ({option}); its columns: {received}."
                )
        text = self.column or _first(TEXT_COLUMNS[self.side], names)
        if text is None:
            expected = " or ".join(map(repr, TEXT_COLUMNS[self.side]))
            sided = "" if self.side == "passage" else f" for --side {self.side}"
            raise UserError(
                f"{self.where} has the columns {received}; expected {expected}{sided}. Name "
                "another with --column."
            )
        return text, self.id_column or _first(ID_COLUMNS[self.side], names)


def _first(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in candidates if name in names), None)


def _decoded(where: str, file: IO[bytes] | gzip.GzipFile) -> Iterator[tuple[int, str]]:
    """Numbered lines with their ends, the byte order mark of the first taken off."""
    try:
        for number, raw in enumerate(file, start=1):
            line = raw.decode("utf-8")
            yield number, line.removeprefix("\N{BYTE ORDER MARK}") if number == 1 else line
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}:{number}: not UTF-8 at byte {error.start + 1} of the line; "
            "convert the file to UTF-8."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{where} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror or error}.") from error


def _lines_of_text(lines: Iterator[tuple[int, str]]) -> Iterator[Text]:
    for _, line in lines:
        yield Text(line.rstrip("\r\n"))


def _txt(lines: Iterator[tuple[int, str]], wanted: _Wanted) -> TextInput:
    return TextInput(_lines_of_text(lines))


def _tsv(lines: Iterator[tuple[int, str]], wanted: _Wanted) -> TextInput:
    _, head = next(lines, (0, ""))
    names = head.rstrip("\r\n").split("\t") if head else []
    cells = ((number, line.rstrip("\r\n").split("\t")) for number, line in lines if line.strip())
    return _table(names, cells, wanted, "tabs between, no quoting")


def _csv(lines: Iterator[tuple[int, str]], wanted: _Wanted) -> TextInput:
    reader = csv.reader((line for _, line in lines), strict=True)

    def cells() -> Iterator[tuple[int, list[str]]]:
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise UserError(f"{wanted.where}:{reader.line_num}: not CSV: {error}.") from error
            if row:
                yield reader.line_num, row

    rows = cells()
    _, names = next(rows, (0, []))
    return _table(names, rows, wanted, "commas between")


def _table(
    names: Sequence[str], cells: Iterator[tuple[int, list[str]]], wanted: _Wanted, rules: str
) -> TextInput:
    if not names:
        raise UserError(f"{wanted.where} is empty; expected a header and texts below.")
    text, id_ = wanted.find(names)
    text_at, id_at = names.index(text), None if id_ is None else names.index(id_)

    def rows() -> Iterator[Text]:
        for number, row in cells:
            if len(row) != len(names):
                raise UserError(
                    f"{wanted.where}:{number}: {len(row)} columns; the header has {len(names)} "
                    f"({rules})."
                )
            yield Text(row[text_at], None if id_at is None else row[id_at])

    return TextInput(rows(), id_at is not None)


def _jsonl(lines: Iterator[tuple[int, str]], wanted: _Wanted) -> TextInput:
    objects = _objects(lines, wanted.where)
    number, first = next(objects, (0, {}))
    if not number:
        raise UserError(f"{wanted.where} is empty; expected a JSON object a line.")
    text, id_ = wanted.find(list(first))

    def rows() -> Iterator[Text]:
        yield _row(f"{wanted.where}:{number}", first, text, id_)
        for line, value in objects:
            yield _row(f"{wanted.where}:{line}", value, text, id_)

    return TextInput(rows(), id_ is not None)


def _objects(lines: Iterator[tuple[int, str]], where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}:{number}: not JSON: {error}.") from error
        if not isinstance(value, dict):
            raise UserError(f"{where}:{number}: expected a JSON object.")
        yield number, value


def _parquet(raw: IO[bytes], wanted: _Wanted) -> TextInput:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(raw)
    except pyarrow.ArrowInvalid as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{wanted.where} is not a Parquet file: {reason}.") from error
    text, id_ = wanted.find(file.schema_arrow.names)
    columns = [text] if id_ is None or id_ == text else [text, id_]
    total, read = file.metadata.num_rows, 0

    def rows() -> Iterator[Text]:
        nonlocal read
        try:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns):
                for value in batch.to_pylist():
                    read += 1
                    yield _row(f"{wanted.where}, row {read}", value, text, id_)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise UserError(f"{wanted.where}, after row {read}: {reason}.") from error

    return TextInput(rows(), id_ is not None, lambda: read / total if total else None)


def _row(where: str, value: dict[str, Any], text: str, id_: str | None) -> Text:
    """The text and the id of a JSON object or a Parquet row."""
    found = value.get(text)
    if not isinstance(found, str):
        raise UserError(f"{where}: {text!r} is {found!r:.40}; expected text.")
    name = None if id_ is None else value.get(id_)
    if id_ is not None and (isinstance(name, bool) or not isinstance(name, (str, int))):
        raise UserError(f"{where}: {id_!r} is {name!r:.40}; expected text or a whole number.")
    # JSON can spell half a surrogate pair, which no UTF-8 file can hold.
    return Text(readable(found), None if id_ is None else readable(str(name)))


def readable(text: str) -> str:
    """The text with U+FFFD for surrogates, which stand for bytes that were not UTF-8."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


_READERS = {".txt": _txt, ".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}
