"""An open file whose rows come in blocks of columns, or one by one; here each line is a row."""

from __future__ import annotations

import gzip
import os
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import IO, Any, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout, reject
from dssm_tf.tables.title_fields import TITLE, joined, spread

BLOCK_BYTES = 1 << 20
BLOCK_ROWS = 8192
"""Of a block whose rows are read one by one."""

Cells = Sequence[Any]
Column = Any
"""An Arrow array, or a list of any values; None if the file lacks it."""
T = TypeVar("T")


class Bad(NamedTuple):
    """A row that cannot be used, why, and what it looks like."""

    number: int
    error: BadRow
    text: bytes | str


class Block(NamedTuple):
    """Rows that follow each other, column by column.

    Args:
        numbers: int64, of their lines, or of their rows in Parquet.
        columns: one each, an Arrow array or a list of any values; None if the file lacks it.
        bad: rows among them that have no cells.
        shown: gives the text of the good row at a place.
    """

    numbers: NDArray[np.int64]
    columns: Sequence[Column]
    bad: list[Bad]
    shown: Callable[[int], bytes | str]


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

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.layout = layout
        self._raw, self._where = raw, where
        self._encoding = layout.encoding if layout.by_bytes else "utf-8"  # see `_blocks`
        self._chunks: Iterator[tuple[int, bytes]] = self._numbered()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        if self.layout.names is not None:
            return self.layout.names
        return tuple(map(fold, self._head()))

    def check_names(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Looks columns up before anything is read.

        Raises:
            UserError: one of `columns` is missing, or one of either comes twice.
        """
        columns = spread(columns, self.layout.title_fields)
        expected = ", ".join(map(repr, columns))
        if not self.names:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        if missing := [name for name in columns if name not in self.names]:
            raise UserError(
                f"{self._where} has the columns {', '.join(map(repr, self.names))[:500]}; expected "
                f"{expected} (missing: {', '.join(missing)}).{self._hint()}"
            )
        for name in (*columns, *optional):
            if self.names.count(name) > 1:
                raise UserError(f"{self._where} names the column {name!r} more than once.")

    def _hint(self) -> str:
        """What may be wrong with a header."""
        name = self.names[0]
        sign = max(",;\t", key=name.count)
        if len(self.names) > 1 or sign not in name:
            return ""
        between, mend = {
            ",": ("commas", "name the file .csv"),
            ";": ("semicolons", "write commas instead, and name the file .csv"),
            "\t": ("tabs", "name the file .tsv"),
        }[sign]
        return f" That is one name with {between} in it: {mend}."

    def rows(
        self,
        columns: Sequence[str],
        optional: Sequence[str] = (),
        make: Callable[[Cells], Any] = tuple,
        *,
        strict: bool = True,
    ) -> Iterator[tuple[int, Any]]:
        """Numbered rows, checked.

        Args:
            columns: whose cells are wanted, in this order; the file has to have them.
            optional: further ones, whose cells are None where the file lacks the column.
            make: what becomes of a row's cells, which are text, or of JSON and Parquet any value;
                it raises `BadRow` if they will not do.
            strict: whether a bad row is an error; otherwise there is a `Reject` in its place.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self.names_in_rows:
            self.check_names(columns, optional)
        return self._made((*columns, *optional), make, strict)

    def _made(
        self, columns: Sequence[str], make: Callable[[Cells], Any], strict: bool
    ) -> Iterator[tuple[int, Any]]:
        for block in self.blocks(columns):
            places, found, bad = made(block, make)
            good = zip(block.numbers[places].tolist(), found, strict=True)
            for number, row in merge(good, ((one.number, one) for one in bad), key=itemgetter(0)):
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
        fields = self.layout.title_fields
        wanted = spread(columns, fields)
        for block in self._blocks_of(wanted):
            if wanted == tuple(columns):
                yield block
            else:
                yield _with_titles(block, columns.index(TITLE), fields)

    def share_read(self) -> float | None:
        """The share of the file that was read, from 0 to 1; None if unknown."""
        with suppress(OSError, ZeroDivisionError):  # a pipe, an empty file
            return self._raw.tell() / os.fstat(self._raw.fileno()).st_size
        return None

    # What another format does in another way.

    def _head(self) -> Sequence[str]:
        """The columns' names as the file has them; none if it is empty."""
        return ("text",)

    def _rows(self) -> Iterator[tuple[int, Any]]:
        """Numbered rows as the file has them."""
        return (numbered for chunk in self._chunks for numbered in _lines(*chunk))

    def _cells(self, row: Any) -> Any:
        """All cells of a row; raises `BadRow`."""
        return [self._decoded(row)]

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        """A function from a row to the cells of the columns; it raises `BadRow`."""
        return self._cells

    def _shown(self, row: Any) -> bytes | str:
        """A row as a person may see it."""
        return cast(bytes, row)

    def _blocks_of(self, columns: Sequence[str]) -> Iterator[Block]:
        """See `blocks`."""
        pick, rows = self._picker(columns), self._rows()
        while some := list(islice(rows, BLOCK_ROWS)):
            yield self._block(some, columns, pick)

    def _block(
        self, rows: Sequence[tuple[int, Any]], names: Sequence[str], pick: Callable[[Any], Cells]
    ) -> Block:
        """A block of some rows, which may all be bad."""
        numbers = np.array([number for number, _ in rows], np.int64)
        raw = [row for _, row in rows]
        whole = Block(numbers, [raw], [], lambda place: self._shown(raw[place]))
        places, cells, bad = made(whole, lambda row: pick(row[0]))
        columns = [[row[at] for row in cells] for at in range(len(names))]
        return Block(numbers[places], columns, bad, lambda at: self._shown(raw[places[at]]))

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._where}:{number}: {bad.detail}.")

    def _check_text(self, text: str) -> None:
        """Raises `BadRow` where something stands for bytes that are not of the encoding."""
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self._bad_text() from None

    # Lines

    def _decoded(self, line: bytes) -> str:
        if len(line) > self.layout.longest:
            detail = f"the line is longer than {self.layout.longest:,} bytes"
            raise BadRow("line too long", detail)
        try:
            text = line.removesuffix(b"\r").decode(self._encoding)
        except UnicodeDecodeError as error:
            raise self._bad_text(f" at byte {error.start + 1} of the line") from None
        self._check_text(text)
        return text

    def _bad_text(self, where: str = "") -> BadRow:
        """Why a row is refused whose bytes are not of the encoding."""
        name = self.layout.encoding.upper()
        return BadRow(
            f"bad {name}", f"not {name}{where}; say what it is, such as --encoding cp1252"
        )

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines, many at a time, and the number of the first."""
        for data in self._whole_lines():
            self.lines += data.count(b"\n")
            yield self.lines - data.count(b"\n") + 1, data

    def _whole_lines(self) -> Iterator[bytes]:
        """Lines with their ends; of one that is too long the beginning."""
        most = self.layout.longest + 1
        held = bytearray()  # of a line that is not over
        for block in self._blocks():
            head, end, rest = block.partition(b"\n")
            held += head[: most - len(held)]
            if end:
                last = rest.rfind(b"\n") + 1
                yield bytes(held) + end + rest[:last]
                held = bytearray(rest[last:][:most])
        if held:
            yield bytes(held) + b"\n"

    def _first_line(self, *, stays: bool = False) -> tuple[int, bytes]:
        """The first line that is not blank; 0 if there is none.

        Args:
            stays: whether it is to be read again.
        """
        for first, data in self._chunks:
            for number, line in _lines(first, data):
                if line.strip():
                    begins = number if stays else number + 1
                    rest = data.split(b"\n", begins - first)[-1]
                    self._chunks = chain([(begins, rest)] if rest else [], self._chunks)
                    return number, line
        return 0, b""

    def _blocks(self) -> Iterator[bytes]:
        file = unpacked(self._raw, self._where)
        with reading(self._where):
            block = file.read(BLOCK_BYTES)
            if self.layout.by_bytes and block.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise UserError(f"{self._where} is UTF-16; say so with --encoding utf-16.")
            decoder = getincrementaldecoder(self.layout.encoding)()
            first = self.layout.names is None
            while block:
                if self.layout.by_bytes:
                    text = block
                else:  # to UTF-8, whose lines end where bytes say so
                    text = decoder.decode(block).encode("utf-8", "surrogatepass")
                yield text.removeprefix(BOM_UTF8) if first else text
                first = False
                block = file.read(BLOCK_BYTES)
            if not self.layout.by_bytes:
                decoder.decode(b"", final=True)  # half a character at the end is an error


def made(
    block: Block, make: Callable[[Cells], T], places: Sequence[int] | None = None
) -> tuple[list[int], list[T], list[Bad]]:
    """What a function makes of the rows of a block.

    Args:
        block: the rows.
        make: of a row's cells; raises `BadRow` if they will not do.
        places: of the rows; all if None.

    Returns:
        The places of the rows that will do, what they become, and all bad rows in their order.
    """
    kept, found, bad = [], [], [*block.bad]
    if places is None:
        places = range(len(block.numbers))
    cells_of = (values(some(one, places), len(places)) for one in block.columns)
    for place, cells in zip(places, zip(*cells_of, strict=True), strict=True):
        try:
            found.append(make(cells))
            kept.append(place)
        except BadRow as error:
            bad.append(Bad(int(block.numbers[place]), error, block.shown(place)))
    return kept, found, sorted(bad, key=lambda one: one.number)


def values(column: Column, size: int) -> list[Any]:
    """A column's cells; bytes that are not UTF-8 become lone surrogates."""
    if column is None:
        return [None] * size
    if isinstance(column, list):
        return column
    if pa.types.is_temporal(column.type):  # Python's own end with the year 9999
        column = column.cast(pa.string())
    try:
        found = column.to_pylist()
    except UnicodeDecodeError:
        found = column.cast(pa.large_binary()).to_pylist()
    return [
        one.decode("utf-8", "surrogateescape") if isinstance(one, bytes) else one for one in found
    ]


def some(column: Column, places: Sequence[int]) -> Column:
    """A column's cells at some places."""
    if column is None or len(places) == len(column):
        return column
    return [column[at] for at in places] if isinstance(column, list) else column.take(places)


def _with_titles(block: Block, place: int, fields: Sequence[str]) -> Block:
    """A block whose columns from a place on, one a field, are one column of titles."""
    end = place + len(fields)
    named = block._replace(columns=block.columns[place:end])
    places, titles, bad = made(named, lambda cells: joined(cells, fields))
    rest = [some(one, places) for one in (*block.columns[:place], *block.columns[end:])]
    columns = [*rest[:place], titles, *rest[place:]]
    return Block(block.numbers[places], columns, bad, lambda at: block.shown(places[at]))


def _lines(first: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(data[:-1].split(b"\n"), first) if data else iter(())


@lru_cache
def fold(name: str) -> str:
    """The name of a column as it is compared: without case and outer white space."""
    return name.strip().lower()


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
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror or error}.") from error
    except UnicodeError as error:
        raise UserError(f"{where} cannot be decoded: {error}; give its --encoding.") from error
