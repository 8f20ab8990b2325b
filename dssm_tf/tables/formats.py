"""The formats: lines, TSV, CSV, JSON lines and Parquet, each as a `Table`."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import chain, repeat
from operator import itemgetter
from typing import IO, Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.table import Cells, Layout, Table, fold

BLOCK_BYTES = 1 << 20
PARQUET_ROWS = 8192


class Lines(Table):
    """A row is a line, blank or not, and its one cell; the column is called `text`."""

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        super().__init__(raw, where, layout)
        self._encoding, self._longest = layout.encoding, layout.longest
        self._numbered = self._read()

    def _head(self) -> tuple[int, Any]:
        return 1, b"text"

    def _raw(self) -> Iterator[tuple[int, Any]]:
        return self._numbered

    def _cells(self, raw: Any) -> Any:
        return [self._decoded(raw)]

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        return self._cells

    def _shown(self, raw: Any) -> bytes | str:
        line: bytes = raw
        return line

    def _decoded(self, line: bytes) -> str:
        encoding = self._encoding
        if len(line) > self._longest:
            raise BadRow("line too long", f"longer than {self._longest:,} bytes; is it a table?")
        try:
            return line.removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as error:
            raise BadRow(
                "bad UTF-8",
                f"not {encoding.upper()} at byte {error.start + 1} of the line; convert the file "
                "to UTF-8",
            ) from None

    def _read(self) -> Iterator[tuple[int, bytes]]:
        """Numbered lines without their ends; of one that is too long the beginning."""
        longest = self._longest
        begun: list[bytes] = []  # a line's parts in the blocks so far
        held = 0
        for block in self._blocks():
            part, *lines = block.split(b"\n")
            if held <= longest:
                begun.append(part[: longest + 1 - held])
                held += len(begun[-1])
            if lines:
                last = lines.pop()
                lines.insert(0, b"".join(begun))
                yield from enumerate(lines, self.lines + 1)
                self.lines += len(lines)
                begun, held = [last], len(last)
        if held:
            self.lines += 1
            yield self.lines, b"".join(begun)

    def _blocks(self) -> Iterator[bytes]:
        with reading(self._where):
            block = self._file.read(BLOCK_BYTES)
            if self._layout.names is None:
                block = block.removeprefix(b"\xef\xbb\xbf")
            while block:
                yield block
                block = self._file.read(BLOCK_BYTES)


class TabSeparated(Lines):
    """A row is a line of cells, tabs between, nothing quoted; the first names the columns."""

    def _raw(self) -> Iterator[tuple[int, Any]]:
        return ((number, line) for number, line in self._numbered if line.strip())

    def _head(self) -> tuple[int, Any]:
        return next(self._raw(), (0, None))

    def _cells(self, raw: Any) -> Any:
        return self._decoded(raw).split("\t")

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        width, cells_of = len(self.names), self._cells
        # A column that the file lacks is one place behind the last.
        places = [self.names.index(name) if name in self.names else width for name in columns]
        select: Callable[[Any], Cells] = itemgetter(*places)
        if len(places) == 1:
            (place,) = places
            select = lambda cells: (cells[place],)  # noqa: E731

        def pick(raw: Any) -> Cells:
            cells = cells_of(raw)
            if len(cells) != width:
                raise BadRow("wrong column count", f"{len(cells)} columns; the header has {width}")
            cells.append(None)
            return select(cells)

        return pick


class Quoted(TabSeparated):
    """A row is a record of CSV: cells with commas between, in quotes perhaps and over lines."""

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        super().__init__(raw, where, layout)
        self._records = self._parsed()

    def _raw(self) -> Iterator[tuple[int, Any]]:
        return self._records

    def _cells(self, raw: Any) -> Any:
        if isinstance(raw, csv.Error):
            raise BadRow("bad CSV", f"not CSV: {raw}")
        return _utf8(raw)

    def _shown(self, raw: Any) -> bytes | str:
        return "" if isinstance(raw, csv.Error) else ",".join(raw)

    def _parsed(self) -> Iterator[tuple[int, list[str] | csv.Error]]:
        """Records, each with the line where it starts."""
        layout = self._layout
        reader = csv.reader(self._fed(), delimiter=layout.delimiter, strict=layout.strict_quotes)
        while True:
            number = reader.line_num + 1
            try:
                record: list[str] | csv.Error = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # the next record starts on the next line
                record = error
            if record:
                yield number, record

    def _fed(self) -> Iterator[str]:
        for _, line in self._numbered:
            text = line.decode(self._encoding, "surrogateescape") + "\n"
            # Some spreadsheets end lines with \r alone.
            yield from StringIO(text, newline="") if "\r" in text[:-2] else (text,)


class Objects(Lines):
    """A row is a line of JSON, an object, whose keys name the columns."""

    names_in_rows = True

    def _raw(self) -> Iterator[tuple[int, Any]]:
        return ((number, line) for number, line in self._numbered if line.strip())

    def _head(self) -> tuple[int, Any]:
        """The first object, which stays to be read."""
        first = next(self._raw(), (0, b""))
        self._numbered = chain([first], self._numbered)
        return first

    def _cells(self, raw: Any) -> Any:
        value = parse_json(self._decoded(raw))
        if not isinstance(value, dict):
            raise BadRow("not a JSON object", f"a {type(value).__name__}; expected a JSON object")
        return {fold(name): cell for name, cell in value.items()}

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        return lambda line: [*map(self._cells(line).get, columns)]


class Parquet(Table):
    """A row is a row of Parquet; the schema names the columns."""

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        from pyarrow import parquet

        super().__init__(raw, where, layout)
        with self._arrow("is not a Parquet file"):
            self._parquet = parquet.ParquetFile(raw)
        self.row_groups = self._parquet.num_row_groups
        self._columns: Sequence[str] = ()

    def share_read(self) -> float | None:
        """See `Table`."""
        total = self._parquet.metadata.num_rows
        return self.lines / total if total else None

    def _head(self) -> tuple[int, Any]:
        return 1, self._parquet.schema_arrow.names

    def _cells(self, raw: Any) -> Any:
        return _utf8(raw)

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        self._columns = columns
        return self._cells

    def _raw(self) -> Iterator[tuple[int, Any]]:
        """The cells of the columns alone."""
        written = dict(zip(self.names, self._parquet.schema_arrow.names, strict=True))
        wanted = [written[name] for name in dict.fromkeys(self._columns) if name in written]
        group = self._layout.row_group
        with self._arrow("is damaged"):
            for batch in self._parquet.iter_batches(
                PARQUET_ROWS, row_groups=None if group is None else [group], columns=wanted
            ):
                lists = {name: _values(batch.column(name)) for name in wanted}
                nothing = repeat(None, batch.num_rows)
                columns = (lists.get(written.get(name), nothing) for name in self._columns)
                for cells in zip(*columns, strict=True):
                    self.lines += 1
                    yield self.lines, cells

    def _shown(self, raw: Any) -> bytes | str:
        row = dict(zip(self._columns, raw, strict=True))
        return json.dumps(row, default=str, ensure_ascii=False)

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._where}, row {number}: {bad.detail}.")

    @contextmanager
    def _arrow(self, fault: str) -> Iterator[None]:
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise UserError(f"{self._where} {fault}: {reason}.") from error


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


def parse_json(text: str) -> Any:
    """A value of JSON.

    Raises:
        BadRow: the text is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRow("not JSON", f"not JSON: {error}") from None


def _utf8(cells: Any) -> Any:
    """The cells, unless one holds what stands for bytes that are not UTF-8."""
    for cell in cells:
        if isinstance(cell, str) and not cell.isascii():
            try:
                cell.encode()
            except UnicodeEncodeError:
                raise BadRow("bad UTF-8", "not UTF-8; convert the file to UTF-8") from None
    return cells


def _values(column: Any) -> list[Any]:
    """A column's values; bytes that are not UTF-8 become lone surrogates."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        column = column.cast(pyarrow.large_binary())
    return [
        value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        for value in column.to_pylist()
    ]
