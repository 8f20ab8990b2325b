"""Tables whose rows are lines: how blocks of bytes become lines, and lines cells or columns."""

from __future__ import annotations

import gzip
import json
import zlib
from codecs import BOM_UTF8, iterdecode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from typing import IO, Any

import pyarrow as pa
from pyarrow import csv

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, count_or, title_field
from dssm_tf.tables.layout import TITLE, Layout, Reject, reject, spread
from dssm_tf.text.fields import join_fields

BLOCK_BYTES = 1 << 18
BLOCK_ROWS = 1 << 13
Read = Callable[[Any, str], Any]
"""Makes a value of a cell and its column's name; raises `BadRow` if the cell will not do."""
Columns = Mapping[str, Read | None] | Sequence[str]
"""The columns that are wanted, perhaps with what reads the cells of each."""
Numbered = Iterator[tuple[int, Any]]
Rows = Iterator[tuple[int, Any, Any]]
"""Of each row the number, the cells in a list or by name, or a `BadRow`, and how it looks."""
Lines = Iterator[tuple[range, list[bytes]]]
Blocks = Iterator[tuple[list[pa.Array], list[Reject]]]
"""Columns of good rows that follow each other, and the malformed rows among them."""


class Table:
    """The rows of a file, to be read once; here lines, blank or not, each one cell called `text`.

    Args:
        raw: its bytes.
        where: its name; `.gz` is unpacked.
        layout: what the name does not say.

    Attributes:
        lines: how many lines, or rows of Parquet, were read.
    """

    names_in_rows = False
    _place = "{}:{}"

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.layout, self._raw, self._where = layout, raw, where
        self._name = lru_cache(layout.name)
        self._wanted: Sequence[str] = ()
        self._left = self._lines()
        self._rows = self._numbered()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        return self.layout.names or ("text",)

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
            raise UserError(
                f"{self._where} has the columns {', '.join(map(repr, self.names))[:500]}; expected "
                f"{expected} (missing: {', '.join(missing)})."
            )
        for name in (*columns, *optional):
            if self.names.count(name) > 1:
                raise UserError(f"{self._where} names the column {name!r} more than once.")

    def rows(self, columns: Columns, *, strict: bool = True) -> Numbered:
        """Numbered rows, each a tuple of what is made of its cells, in the order of the columns.

        Args:
            columns: those that the file has to have; of JSON objects, only if `strict`.
            strict: whether a bad row is an error; otherwise there is a `Reject` in its place.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self.names_in_rows:
            self.check_names(columns)
        reads = columns if isinstance(columns, Mapping) else dict.fromkeys(columns)
        return self._read(self._rows, reads, strict)

    def blocks(self, reads: Mapping[str, Read]) -> Blocks:
        """What is made of the columns, for who calls `check_names` first.

        Raises:
            UserError: while reading, the file is damaged.
        """
        rows = self._read(self._rows, reads)
        while some := [*islice(rows, BLOCK_ROWS)]:
            yield _columns(some, reads)

    def _read(self, rows: Rows, reads: Mapping[str, Read | None], strict: bool = False) -> Numbered:
        fields = self.layout.title_fields
        wanted = self._wanted = spread([*reads], fields)
        names = () if self.names_in_rows else self.names
        for number, cells, shown in rows:
            by_name: dict[str, Any] = {}
            try:
                if isinstance(cells, BadRow):
                    raise cells
                if isinstance(cells, list) and len(cells) != len(names):
                    detail = f"{len(cells)} columns; the header has {len(names)}"
                    raise BadRow("wrong column count", detail)
                by_name |= cells if isinstance(cells, dict) else zip(names, cells, strict=True)
                if wanted != [*reads]:
                    found = [title_field(by_name.get(name), name) for name in fields]
                    by_name[TITLE] = join_fields(found)
                made: Any = tuple(
                    read(by_name.get(name), name) if read else by_name.get(name)
                    for name, read in reads.items()
                )
            except BadRow as bad:
                if strict:
                    raise self._error(number, bad) from None
                lost = by_name.get("clicks") if "clicks" in reads else None
                made = reject(number, bad, shown, count_or(1, lost, "clicks"))
            yield number, made

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._place.format(self._where, number)}: {bad.detail}.")

    def _numbered(self) -> Rows:
        """The rows as the file has them."""
        for numbers, lines in self._left:
            yield from self._of_lines(numbers, lines)

    def _of_lines(self, numbers: Iterable[int], lines: Iterable[bytes]) -> Rows:
        for number, line in zip(numbers, lines, strict=True):
            try:
                cells = self._cells(self._decoded(line))
            except BadRow as bad:
                cells = bad
            if cells is not None:
                yield number, cells, line

    def _cells(self, line: str) -> Any:
        """The cells of a line; None if it is no row; raises `BadRow`."""
        return [line]

    def _lines(self) -> Lines:
        """Lines without their ends, the first by itself; of one that is too long not all."""
        held, longest = b"", self.layout.longest
        for block in chain(self._bytes(), [b""]):
            lines = (held[: longest + 1] + block).split(b"\n")
            if block or not lines[-1]:
                held = lines.pop()
            for some in (lines[:1], lines[1:]) if self.lines == 0 else [lines]:
                self.lines += len(some)
                yield range(self.lines - len(some) + 1, self.lines + 1), some

    def _bytes(self) -> Iterator[bytes]:
        packed = self._where.endswith(".gz")
        file = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        with reading(self._where):
            blocks = iter(partial(file.read, BLOCK_BYTES), b"")
            if not self.layout.is_utf8:
                texts = iterdecode(blocks, self.layout.encoding, "surrogateescape")
                blocks = (text.encode("utf-8", "surrogatepass") for text in texts)
            yield next(blocks, b"").removeprefix(BOM_UTF8)
            yield from blocks

    def _decoded(self, line: bytes) -> str:
        longest = self.layout.longest
        if len(line) > longest:
            raise BadRow("line too long", f"the line is longer than {longest:,} bytes")
        try:
            return line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise self._bad_text from None

    @property
    def _bad_text(self) -> BadRow:
        """Why a row is refused whose bytes are not of the encoding."""
        name = self.layout.encoding.upper()
        return BadRow(f"bad {name}", f"not {name}; say what it is, such as --encoding cp1252")

    def _checked(self, cells: list[str]) -> Any:
        """The cells; a `BadRow` if something stands for bytes that are not of the encoding."""
        try:
            "".join(cells).encode()
        except UnicodeEncodeError:
            return self._bad_text
        return cells


class WithHeader(Table):
    """Rows whose columns the first one names."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        if self.layout.names is not None:
            return self.layout.names
        first: tuple[int, Any, Any] = next(self._rows, (0, [], b""))
        number, cells, _ = first
        if isinstance(cells, BadRow):
            raise self._error(number, cells)
        if self.names_in_rows:
            self._rows = chain([first], self._rows)
        return tuple(map(self._name, cells))


class TabSeparated(WithHeader):
    """A row is a line of cells, tabs between, nothing quoted; the first line names the columns."""

    def _cells(self, line: str) -> Any:
        return line.split("\t") if line.strip() else None

    def blocks(self, reads: Mapping[str, Read]) -> Blocks:
        """As other tables; the lines of a block all at once, or one by one if any is unusual."""
        if self.names:  # and so behind the header
            for numbers, lines in self._left:
                if columns := self._usual(lines, reads):
                    yield columns, []
                else:
                    yield _columns([*self._read(self._of_lines(numbers, lines), reads)], reads)

    def _usual(self, lines: list[bytes], reads: Mapping[str, Read]) -> list[pa.Array]:
        """What is made of the columns of lines that are all usual; nothing if one is not."""
        data = b"\n".join([*lines, b""]).replace(b"\r\n", b"\n")
        odd = b"\r" in data or data.startswith(BOM_UTF8) or self.layout.title_fields != (TITLE,)
        if odd or len(self.names) < 2 or max(map(len, lines), default=0) > self.layout.longest:
            return []
        try:
            table = csv.read_csv(
                pa.py_buffer(data),
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


class Objects(WithHeader):
    """A row is a line of JSON, an object, whose keys name the columns."""

    names_in_rows = True

    def _cells(self, line: str) -> Any:
        if not line.strip():
            return None
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRow("not JSON", f"not JSON: {error}") from None
        if not isinstance(value, dict):
            detail = f"a {type(value).__name__}; expected a JSON object"
            raise BadRow("not a JSON object", detail)
        return {self._name(name): cell for name, cell in value.items()}


def _columns(rows: Sequence[tuple[int, Any]], names: Iterable[str]) -> tuple[Any, list[Reject]]:
    """Rows in columns, and rejects apart."""
    good = [row for _, row in rows if not isinstance(row, Reject)]
    columns = [pa.array([row[place] for row in good]) for place, _ in enumerate(names)]
    return columns, [row for _, row in rows if isinstance(row, Reject)]


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
