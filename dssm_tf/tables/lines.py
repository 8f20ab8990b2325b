"""Tables whose rows are lines: how blocks of bytes become lines, and lines cells or columns."""

from __future__ import annotations

import gzip
import os
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from typing import IO, Any, cast

import pyarrow as pa
from pyarrow import csv

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, likely_clicks, title_field
from dssm_tf.tables.layout import TITLE, Layout, Reject, reject, spread
from dssm_tf.text.fields import join_fields

BLOCK_BYTES = 1 << 20
BLOCK_ROWS = 1 << 13
_FEW = 256
Read = Callable[[Any, str], Any]
"""Makes a value of a cell and its column's name; raises `BadRow` if the cell will not do."""
Columns = Mapping[str, Read | None] | Sequence[str]
"""The columns that are wanted, perhaps with what reads the cells of each."""
Numbered = Iterator[tuple[int, Any]]
Blocks = Iterator[tuple[list[pa.Array], list[Reject]]]
"""Columns of good rows that follow each other, and the malformed rows among them."""
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
    _blank_rows = True

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.layout, self._raw, self._where = layout, raw, where
        self._encoding = layout.encoding if layout.by_bytes else "utf-8"  # see `_bytes`
        self._name = lru_cache(layout.name)
        self._left = self._lines()

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
        return self._read(self._rows([*reads]), reads, strict)

    def blocks(self, reads: Mapping[str, Read]) -> Blocks:
        """What is made of the columns, for who calls `check_names` first.

        Raises:
            UserError: while reading, the file is damaged.
        """
        rows = self._read(self._rows([*reads]), reads)
        while some := [*islice(rows, BLOCK_ROWS)]:
            yield _columns(some, reads)

    def share_read(self) -> float | None:
        """The share of the file that was read, from 0 to 1; None if unknown."""
        with suppress(OSError, ZeroDivisionError):  # a pipe, an empty file
            return self._raw.tell() / os.fstat(self._raw.fileno()).st_size
        return None

    def _read(
        self, rows: Numbered, reads: Mapping[str, Read | None], strict: bool = False
    ) -> Numbered:
        columns, fields = [*reads], self.layout.title_fields
        wanted = spread(columns, fields)
        names = () if self.names_in_rows else self.names
        places = [names.index(name) if name in names else None for name in wanted]
        for number, row in rows:
            picked: list[Any] = []
            try:
                cells = self._cells(row)
                if isinstance(cells, dict):
                    picked = [*map(cells.get, wanted)]
                elif len(cells) == len(names):
                    picked = [None if place is None else cells[place] for place in places]
                else:
                    detail = f"{len(cells)} columns; the header has {len(names)}"
                    raise BadRow("wrong column count", detail)
                if wanted != columns:
                    at = columns.index(TITLE)
                    parts = slice(at, at + len(fields))
                    picked[parts] = [join_fields([*map(title_field, picked[parts], fields)])]
                both = zip(picked, reads.items(), strict=True)
                made: Any = tuple(read(cell, name) if read else cell for cell, (name, read) in both)
            except BadRow as bad:
                if strict:
                    raise self._error(number, bad) from None
                known = "clicks" in columns and len(picked) == len(columns)
                clicks = likely_clicks(picked[columns.index("clicks")]) if known else 1
                made = reject(number, bad, self._shown(row), clicks)
            yield number, made

    # What another format does in another way.

    def _header(self) -> tuple[int, Any]:
        """The row that names the columns and its number, 0 if there is none."""
        return 1, b"text"

    def _rows(self, columns: Sequence[str]) -> Numbered:
        """Numbered rows as the file has them; further columns may be left out."""
        return chain.from_iterable(self._filled(*some) for some in self._left)

    def _filled(self, numbers: Iterable[int], lines: Iterable[bytes]) -> Numbered:
        both = zip(numbers, lines, strict=True)
        return ((number, line) for number, line in both if self._blank_rows or line.strip())

    def _cells(self, row: Any) -> Any:
        """The cells of a row, in a list or by name; raises `BadRow`."""
        return [self._decoded(row)]

    def _shown(self, row: Any) -> bytes | str:
        """A row as a person may see it."""
        return cast(bytes, row)

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._place.format(self._where, number)}: {bad.detail}.")

    # Lines

    def _lines(self) -> Iterator[tuple[range, list[bytes]]]:
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


class TabSeparated(Table):
    """A row is a line of cells, tabs between, nothing quoted; the first names the columns."""

    _blank_rows = False

    def _header(self) -> tuple[int, Any]:
        for numbers, lines in self._left:
            for at, line in enumerate(lines):
                if line.strip():
                    rest = at + (not self.names_in_rows)
                    self._left = chain([(numbers[rest:], lines[rest:])], self._left)
                    return numbers[at], line
        return 0, b""

    def _cells(self, row: Any) -> Any:
        return self._decoded(row).split("\t")

    def blocks(self, reads: Mapping[str, Read]) -> Blocks:
        """As other tables; usual lines all at once."""
        for numbers, lines in self._left:
            yield from self._halved(numbers, lines, reads)

    def _halved(self, numbers: range, lines: list[bytes], reads: Mapping[str, Read]) -> Blocks:
        """Lines all at once; if any is unusual, in halves, and at last one by one."""
        half = len(lines) // 2
        if columns := self._usual(lines, reads):
            yield columns, []
        elif len(lines) < _FEW:
            yield _columns([*self._read(self._filled(numbers, lines), reads)], reads)
        else:
            yield from self._halved(numbers[:half], lines[:half], reads)
            yield from self._halved(numbers[half:], lines[half:], reads)

    def _usual(self, lines: list[bytes], reads: Mapping[str, Read]) -> list[pa.Array]:
        """What is made of the columns of lines that are all usual; nothing if one is not."""
        data = b"\n".join([*lines, b""]).replace(b"\r\n", b"\n")
        odd = b"\r" in data or data.startswith(BOM_UTF8) or self.layout.title_fields != (TITLE,)
        if odd or len(self.names) < 2 or max(map(len, lines), default=0) > self.layout.longest:
            return []
        try:
            table = csv.read_csv(
                pa.py_buffer(data.decode(self._encoding).encode()),
                csv.ReadOptions(
                    use_threads=False, block_size=len(data) * 2 + 2, column_names=self.names
                ),
                csv.ParseOptions(delimiter="\t", quote_char=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    include_columns=[*reads],
                    include_missing_columns=True,
                ),
            )
            found = []
            for column, (name, read) in zip(table.columns, reads.items(), strict=True):
                distinct = column.combine_chunks().cast(pa.string()).dictionary_encode("encode")
                made = [read(cell, name) for cell in distinct.dictionary.to_pylist()]
                found.append(pa.array(made).take(distinct.indices))
        except (UnicodeError, pa.ArrowInvalid, BadRow):
            return []
        return found


def _columns(rows: Sequence[tuple[int, Any]], names: Iterable[str]) -> tuple[Any, list[Reject]]:
    """Rows in columns, and rejects apart."""
    good = [row for _, row in rows if not isinstance(row, Reject)]
    columns = map(pa.array, zip(*good, strict=True)) if good else (pa.nulls(0) for _ in names)
    return [*columns], [row for _, row in rows if isinstance(row, Reject)]


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
