"""Opens people's files by their names and reads them in blocks of columns, however large they are.

| name | a row is | columns are named by |
|---|---|---|
| `.tsv` | a line; tabs between, nothing quoted | the first line |
| `.csv` | a record; commas between, quoted as spreadsheets do | the first record |
| `.jsonl` | a JSON object a line | its keys |
| `.parquet` | a row | the schema |
| `.txt` | a line, blank ones too | nothing; it is one cell, `text` |

All but Parquet may be `.gz`. Columns are found by name, without case and outer white space: their
order is free, and further ones are ignored. Text is UTF-8; a byte order mark at the start is no
part of it, and blank lines are no rows.

A bad row is an error that names file and line; for who reads with `strict=False` it is a `Reject`
with a reason, so that a log of millions of rows may hold some.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, lru_cache, partial
from heapq import merge
from io import StringIO
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from dssm_tf.common.errors import UserError
from dssm_tf.tables.block import Bad, Block, Faults, Read, read_cells
from dssm_tf.tables.cells import BadRow, title_field
from dssm_tf.tables.layout import TITLE, Layout, reject, spread
from dssm_tf.text.fields import join_fields

TABLES = ("tsv", "csv", "jsonl", "parquet")
BLOCK_BYTES = 1 << 20
BLOCK_ROWS = 1 << 13
Columns = Mapping[str, Read | None] | Sequence[str]
"""The columns that are wanted, perhaps with what reads the cells of each."""
Numbered = Iterator[tuple[int, Any]]
Rows = Iterator[tuple[Sequence[int], Sequence[Any]]]
"""Numbers and rows, many at a time."""
_HINTS = {
    ",": "commas in it: name the file .csv",
    ";": "semicolons in it: write commas instead, and name the file .csv",
    "\t": "tabs in it: name the file .tsv",
}


class Table:
    """The rows of a file, to be read once: its lines, blank or not, each one cell called `text`.

    Args:
        raw: its bytes.
        where: its name; `.gz` is unpacked.
        layout: what the name does not say.

    Attributes:
        lines: how many lines, or rows of Parquet, were read.
        row_groups: in how many parts Parquet was written, else 1.
    """

    names_in_rows = False
    row_groups = 1
    _place = "{}:{}"

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.layout, self._raw, self._where = layout, raw, where
        self._encoding = layout.encoding if layout.by_bytes else "utf-8"  # see `_bytes`
        self._name = lru_cache(layout.name)
        self._rows: Rows = self._lines()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        if self.layout.names is not None:
            return self.layout.names
        number, row = self._header()
        try:
            return tuple(map(self._name, self._cells(row))) if number else ()
        except BadRow as bad:
            raise self._error(number, bad) from None

    def check_names(self, columns: Columns, optional: Columns = ()) -> None:
        """Looks columns up before anything is read.

        Raises:
            UserError: one of `columns` is missing, or one of either comes twice.
        """
        columns = spread([*columns], self.layout.title_fields)
        theirs = dict(self.layout.columns)
        expected = ", ".join(repr(theirs.get(name, name)) for name in columns)
        if not self.names:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        missing = [theirs.get(name, name) for name in columns if name not in self.names]
        if missing:
            sign = max(_HINTS, key=self.names[0].count)
            alone = len(self.names) == 1 and sign in self.names[0]
            raise UserError(
                f"{self._where} has the columns {', '.join(map(repr, self.names))[:500]}; expected "
                f"{expected} (missing: {', '.join(missing)})."
                + (f" That is one name with {_HINTS[sign]}." if alone else "")
            )
        for name in (*columns, *optional):
            if self.names.count(name) > 1:
                raise UserError(f"{self._where} names the column {name!r} more than once.")

    def rows(self, columns: Columns, optional: Columns = (), *, strict: bool = True) -> Numbered:
        """Numbered rows, each a tuple of what is made of its cells, in the order of the columns.

        Args:
            columns: those that the file has to have.
            optional: further ones, whose cells are None if the file lacks the column.
            strict: whether a bad row is an error; otherwise there is a `Reject` in its place.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self.names_in_rows:
            self.check_names(columns, optional)
        reads: dict[str, Read | None] = {}
        for some in (columns, optional):
            reads |= some if isinstance(some, Mapping) else dict.fromkeys(some)
        blocks = (block.read(reads.items()) for block in self.blocks([*reads]))
        return chain.from_iterable(self._merged(block, strict) for block in blocks)

    def _merged(self, block: Block, strict: bool) -> Numbered:
        good = zip(block.numbers, zip(*block.columns, strict=True), strict=True)
        for number, row in merge(good, ((row.number, row) for row in block.bad), key=itemgetter(0)):
            if strict and isinstance(row, Bad):
                raise self._error(number, row.error)
            yield number, reject(*row) if isinstance(row, Bad) else row

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The rows in blocks, for who calls `check_names` first.

        Args:
            columns: whose cells are wanted, in this order.

        Raises:
            UserError: while reading, the file is damaged.
        """
        wanted = spread(columns, self.layout.title_fields)
        for numbers, rows in self._rows_with(wanted):
            block = self._block(numbers, rows, wanted)
            if wanted != columns:
                at, count = columns.index(TITLE), len(self.layout.title_fields)
                parts = range(at, at + count)
                block = block.read(
                    (name, title_field if n in parts else None) for n, name in enumerate(wanted)
                )
                titles = [*map(join_fields, zip(*block.columns[at : at + count], strict=True))]
                block.columns[at : at + count] = [titles]
            yield block

    def share_read(self) -> float | None:
        """The share of the file that was read, from 0 to 1; None if unknown."""
        with suppress(OSError, ZeroDivisionError):  # a pipe, an empty file
            return self._raw.tell() / os.fstat(self._raw.fileno()).st_size
        return None

    # What another format does in another way.

    def _header(self) -> tuple[int, Any]:
        """The row that names the columns and its number, 0 if there is none."""
        return 1, b"text"

    def _rows_with(self, columns: Sequence[str]) -> Rows:
        """Rows as the file has them, many at a time; further columns may be left out."""
        return self._rows

    def _cells(self, row: Any) -> Any:
        """The cells of a row, in a list or by name; raises `BadRow`."""
        return [self._decoded(row)]

    def _shown(self, row: Any) -> bytes | str:
        """A row as a person may see it."""
        return cast(bytes, row)

    def _block(self, numbers: Sequence[int], rows: Sequence[Any], columns: Sequence[str]) -> Block:
        """A block of some rows, which may all be bad."""
        names = () if self.names_in_rows else self.names
        places = [names.index(name) if name in names else None for name in columns]

        def pick(row: Any, _: str) -> list[Any]:
            cells = self._cells(row)
            if isinstance(cells, dict):
                return [*map(cells.get, columns)]
            if len(cells) != len(names):
                detail = f"{len(cells)} columns; the header has {len(names)}"
                raise BadRow("wrong column count", detail)
            return [None if place is None else cells[place] for place in places]

        faults: Faults = {}
        picked = filter(None, read_cells(rows, pick, "", range(len(rows)), faults))
        found = [*map(list, zip(*picked, strict=True))] or [[] for _ in columns]
        block = Block(numbers, [], [], lambda at: self._shown(rows[at])).without(faults)
        return block._replace(columns=found)

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._place.format(self._where, number)}: {bad.detail}.")

    # Lines

    def _lines(self) -> Rows:
        """Lines without their ends, and their numbers; of one that is too long not all."""
        held, longest = b"", self.layout.longest
        for block in chain(self._bytes(), [b""]):
            lines = (held[: longest + 1] + block).split(b"\n")
            if block or not lines[-1]:
                held = lines.pop()
            self.lines += len(lines)
            yield range(self.lines - len(lines) + 1, self.lines + 1), lines

    def _bytes(self) -> Iterator[bytes]:
        file, layout = unpacked(self._raw, self._where), self.layout
        with reading(self._where):
            blocks = iter(partial(file.read, BLOCK_BYTES), b"")
            if not layout.by_bytes:  # to UTF-8, whose lines end where bytes say so
                blocks = (text.encode() for text in iterdecode(blocks, layout.encoding))
            first = next(blocks, b"")
            if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise UserError(f"{self._where} is UTF-16; say so with --encoding utf-16.")
            yield first.removeprefix(BOM_UTF8) if layout.names is None else first
            yield from blocks

    def _decoded(self, line: bytes) -> str:
        longest = self.layout.longest
        if len(line) > longest:
            raise BadRow("line too long", f"the line is longer than {longest:,} bytes")
        try:
            return line.removesuffix(b"\r").decode(self._encoding)
        except UnicodeDecodeError as error:
            raise self._bad_text(f" at byte {error.start + 1} of the line") from None

    def _bad_text(self, where: str = "") -> BadRow:
        """Why a row is refused whose bytes are not of the encoding."""
        name = self.layout.encoding.upper()
        detail = f"not {name}{where}; say what it is, such as --encoding cp1252"
        return BadRow(f"bad {name}", detail)

    def _check_text(self, cells: Iterable[object]) -> None:
        """Raises `BadRow` if something stands for bytes that are not of the encoding."""
        try:
            "".join([cell for cell in cells if isinstance(cell, str)]).encode()
        except UnicodeEncodeError:
            raise self._bad_text() from None


class _TabSeparated(Table):
    """A row is a line of cells, tabs between, nothing quoted; the first names the columns."""

    def _header(self) -> tuple[int, Any]:
        for numbers, lines in self._rows:
            for at, line in enumerate(lines):
                if line.strip():
                    rest = at + (not self.names_in_rows)
                    self._rows = chain([(numbers[rest:], lines[rest:])], self._rows)
                    return numbers[at], line
        return 0, b""

    def _cells(self, row: Any) -> Any:
        return self._decoded(row).split("\t")

    def _block(self, numbers: Sequence[int], rows: Sequence[Any], columns: Sequence[str]) -> Block:
        """Usual lines as columns, all at once; if any is unusual, all one by one."""
        return self._usual(numbers, rows, columns) or super()._block(
            *_filled(numbers, rows), columns
        )

    def _usual(
        self, numbers: Sequence[int], lines: Sequence[Any], columns: Sequence[str]
    ) -> Block | None:
        names, width = self.names, len(self.names)
        data = b"\n".join([*lines, b""]).replace(b"\r\n", b"\n")
        try:
            letters = np.frombuffer(data.decode(self._encoding).encode(), np.uint8)
        except UnicodeError:
            return None
        between = (letters == ord("\n")) | (letters == ord("\t"))
        cuts = np.flatnonzero(between)
        ends = cuts[width - 1 :: width]
        starts = np.append(0, ends + 1)[:-1]
        if (
            len(cuts) != len(lines) * width
            or (letters[ends] != ord("\n")).any()
            or (letters[starts] <= ord(" ")).any()  # a blank line, perhaps
            or (ends - starts).max(initial=0) > self.layout.longest
        ):
            return None
        offsets = np.append(0, cuts - np.arange(len(cuts)))
        buffers = pa.py_buffer(offsets), pa.py_buffer(letters[~between])
        cells = pa.LargeStringArray.from_buffers(len(cuts), *buffers)
        first = np.arange(0, len(cuts), width)
        found = [
            cells.take(first + names.index(name)) if name in names else [None] * len(lines)
            for name in columns
        ]
        return Block(numbers, found, [], lambda at: lines[at].removesuffix(b"\r"))


class _Quoted(Table):
    """A row is a record of CSV: cells with commas between, in quotes perhaps and over lines."""

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        super().__init__(raw, where, layout)
        self._numbered = self._records()

    def _header(self) -> tuple[int, Any]:
        return next(self._numbered, (0, []))

    def _rows_with(self, columns: Sequence[str]) -> Rows:
        while some := [*islice(self._numbered, BLOCK_ROWS)]:
            yield [number for number, _ in some], [row for _, row in some]

    def _cells(self, row: Any) -> Any:
        if isinstance(row, Bad):
            raise row.error
        self._check_text(row)
        return row

    def _shown(self, row: Any) -> bytes | str:
        return row.text if isinstance(row, Bad) else self.layout.delimiter.join(row)

    def _records(self) -> Numbered:
        """Records, each with the line where it starts; a bad one line by line."""
        layout, width = self.layout, 0
        lines: list[str] = []  # of a record
        reader = csv.reader(
            self._fed(lines), delimiter=layout.delimiter, strict=layout.strict_quotes
        )
        while True:
            number = reader.line_num + 1
            lines.clear()
            record: list[str] = []
            error: csv.Error | None = None
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as raised:  # the next record starts on the next line
                error = raised
            width = width or len(layout.names or record)
            if len(lines) > 1 and (error or self._are_rows(lines[1:], width)):
                swallowed = f"{len(lines) - 1:,} lines, up to line {number + len(lines) - 1:,}"
                detail = f"a quote opens here that swallows {swallowed}; close it, or take it out"
                for at, line in enumerate(lines):
                    reason = "swallowed by a quote left open" if at else "quote left open"
                    yield number + at, Bad(number + at, BadRow(reason, detail), line)
            elif error:
                bad = BadRow("bad CSV", f"not CSV: {error}")
                yield number, Bad(number, bad, lines[0])
            elif record:
                yield number, record

    def _are_rows(self, lines: Sequence[str], width: int) -> bool:
        """Whether lines inside quotes are rows that a stray quote has swallowed.

        They are if each has as many cells as the header: text that has as many commas on every
        line by chance is rare once there are three of them.
        """
        most = len(lines) * (width - 1)
        return most >= 3 and all(line.count(self.layout.delimiter) == width - 1 for line in lines)

    def _fed(self, lines: list[str]) -> Iterator[str]:
        """Lines as text, with their ends; each is also put into the list."""
        for _, found in self._rows:  # some spreadsheets end lines with \r alone
            data = b"\n".join([*found, b""]) if found else b""
            for text in StringIO(data.decode(self._encoding, "surrogateescape"), newline=""):
                lines.append(text.rstrip("\n"))
                yield text


class _Objects(Table):
    """A row is a line of JSON, an object, whose keys name the columns."""

    names_in_rows = True
    _header = _TabSeparated._header

    def _rows_with(self, columns: Sequence[str]) -> Rows:
        return (_filled(*rows) for rows in self._rows)

    def _cells(self, row: Any) -> Any:
        return {
            self._name(name): cell
            for name, cell in as_object(parse_json(self._decoded(row))).items()
        }


class _Parquet(Table):
    """A row is a row of Parquet; the schema names the columns."""

    _place = "{}, row {}"

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        from pyarrow import parquet

        super().__init__(raw, where, layout)
        with reading(where):
            self._parquet = parquet.ParquetFile(raw)
        self.row_groups = self._parquet.num_row_groups

    def _header(self) -> tuple[int, Any]:
        return 1, dict.fromkeys(self._parquet.schema_arrow.names)

    def _rows_with(self, columns: Sequence[str]) -> Rows:
        wanted = [name for name in self._parquet.schema_arrow.names if self._name(name) in columns]
        groups = None if self.layout.row_group is None else [self.layout.row_group]
        with reading(self._where):
            for batch in self._parquet.iter_batches(BLOCK_ROWS, groups, wanted):
                first = self.lines + 1
                self.lines += len(batch)
                cells = zip(*map(_values, batch.columns), strict=True)
                rows = [dict(zip(map(self._name, wanted), row, strict=True)) for row in cells]
                yield range(first, self.lines + 1), rows

    def _cells(self, row: Any) -> Any:
        self._check_text(row.values())
        return row

    def _shown(self, row: Any) -> bytes | str:
        return json.dumps(row, default=str, ensure_ascii=False)


_TYPES: dict[str, type[Table]] = {
    "txt": Table,
    "tsv": _TabSeparated,
    "csv": _Quoted,
    "jsonl": _Objects,
    "parquet": _Parquet,
}


def _filled(numbers: Sequence[int], lines: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """Lines that are not blank, and their numbers."""
    kept = [at for at, line in enumerate(lines) if line.strip()]
    return [numbers[at] for at in kept], [lines[at] for at in kept]


def _values(column: pa.Array) -> list[Any]:
    """A column's cells; bytes that are not UTF-8 become lone surrogates."""
    if pa.types.is_temporal(column.type):  # Python's own end with the year 9999
        column = column.cast(pa.string())
    try:
        found = column.to_pylist()
    except UnicodeDecodeError:
        found = column.cast(pa.large_binary()).to_pylist()
    return [
        one.decode("utf-8", "surrogateescape") if isinstance(one, bytes) else one for one in found
    ]


def format_of(path: Path | str, known: Sequence[str] = TABLES, otherwise: str | None = None) -> str:
    """The format that a file's name ends in.

    Args:
        path: the file.
        known: what it may be.
        otherwise: what any other name means; None: it is refused.

    Raises:
        UserError: the format is not known.
    """
    name = str(path)
    packed = name.endswith(".gz")
    found = name.removesuffix(".gz").rpartition(".")[2]
    if found in known and not (packed and found == "parquet"):
        return found
    if otherwise is None:
        raise UserError(
            f"{path} is of no known format; expected a name ending in "
            f"{', '.join(f'.{one}' for one in known)} (all but Parquet also .gz)."
        )
    return otherwise


@contextmanager
def open_table(
    path: Path | str,
    format: str = "",
    layout: Layout | None = None,
    raw: IO[bytes] | None = None,
) -> Iterator[Table]:
    """Opens a file of any format.

    Args:
        path: the file; `.gz` is unpacked.
        format: one of the module's table, if not that of the name.
        layout: what the name does not say.
        raw: its bytes, where they are not to be read from `path` on this machine.

    Raises:
        UserError: the file cannot be read, or is of no known format.
    """
    chosen = _TYPES[format or format_of(path)]
    with ExitStack() as stack:
        if raw is None:
            with reading(str(path)):
                raw = stack.enter_context(Path(path).open("rb"))
        yield chosen(raw, str(path), layout or Layout())


def read_rows(
    path: Path | str, columns: Columns, layout: Layout | None = None, format: str = ""
) -> Iterator[tuple[int, Any]]:
    """The numbered rows of a whole file, as `Table.rows` has them; TSV if the name says nothing.

    Raises:
        UserError: the file cannot be read, lacks a column or has a bad row.
    """
    with open_table(path, format or format_of(path, otherwise="tsv"), layout) as table:
        yield from table.rows(columns)


def unpacked(raw: IO[bytes], where: str) -> IO[bytes]:
    """What a file holds: its bytes, or if it is called `.gz`, what is packed in them."""
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if where.endswith(".gz") else raw


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Blames what goes wrong inside on the file.

    Raises:
        UserError: instead of what was raised.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{where} is not a whole gzip file: {error}.") from error
    except UnicodeError as error:
        raise UserError(f"{where} cannot be decoded: {error}; give its --encoding.") from error
    except (OSError, pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{where} cannot be read: {reason}.") from error


def parse_json(text: str) -> Any:
    """A value of JSON.

    Raises:
        BadRow: the text is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRow("not JSON", f"not JSON: {error}") from None


def as_object(value: Any) -> dict[str, Any]:
    """A value of JSON that is an object.

    Raises:
        BadRow: it is another.
    """
    if not isinstance(value, dict):
        raise BadRow("not a JSON object", f"a {type(value).__name__}; expected a JSON object")
    return value
