"""Opens people's files by their names and reads them row by row, however large they are.

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
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.table import BLOCK_ROWS, Block, Cells, Table, fold, reading, values
from dssm_tf.tables.title_fields import TITLE

TABLES = ("tsv", "csv", "jsonl", "parquet")


class _TabSeparated(Table):
    """A row is a line of cells, tabs between, nothing quoted; the first names the columns."""

    def _head(self) -> Sequence[str]:
        number, line = self._first_line()
        try:
            return cast(Sequence[str], self._cells(line)) if number else ()
        except BadRow as bad:
            raise self._error(number, bad) from None

    def _cells(self, row: Any) -> Any:
        return self._decoded(row).split("\t")

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        names, width = self.names, len(self.names)
        places = [names.index(name) if name in names else None for name in columns]

        def pick(row: Any) -> Cells:
            cells = self._cells(row)
            if len(cells) != width:
                raise BadRow("wrong column count", f"{len(cells)} columns; the header has {width}")
            return [None if place is None else cells[place] for place in places]

        return pick

    def _blocks_of(self, columns: Sequence[str]) -> Iterator[Block]:
        pick = self._picker(columns)
        for first, data in self._chunks:
            lines = enumerate(data[:-1].split(b"\n"), first)
            yield self._all_good(first, data, columns) or self._block(
                [(number, line) for number, line in lines if line.strip()], columns, pick
            )

    def _all_good(self, first: int, data: bytes, columns: Sequence[str]) -> Block | None:
        """Lines as columns, all at once; None if any is bad, blank, or begins with white space."""
        try:
            data = data.replace(b"\r\n", b"\n").decode(self._encoding).encode()
        except UnicodeError:
            return None
        names, width = self.names, len(self.names)
        letters = np.frombuffer(data, np.uint8)
        apart = (letters == ord("\n")) | (letters == ord("\t"))
        cuts = np.flatnonzero(apart)
        ends = cuts[width - 1 :: width]
        starts = np.append(0, ends + 1)[:-1]
        if (
            len(cuts) != data.count(b"\n") * width
            or (letters[ends] != ord("\n")).any()
            or (ends - starts).max(initial=0) > self.layout.longest
            or (letters[starts] <= ord(" ")).any()
        ):
            return None
        offsets = np.append(0, cuts - np.arange(len(cuts)))
        buffers = pa.py_buffer(offsets), pa.py_buffer(letters[~apart])
        cells = pa.LargeStringArray.from_buffers(len(cuts), *buffers)
        every = np.arange(len(ends)) * width
        return Block(
            first + np.arange(len(ends)),
            [cells.take(every + names.index(name)) if name in names else None for name in columns],
            [],
            lambda place: data[starts[place] : ends[place]],
        )


class _Quoted(_TabSeparated):
    """A row is a record of CSV: cells with commas between, in quotes perhaps and over lines."""

    _blocks_of = Table._blocks_of

    def _head(self) -> Sequence[str]:
        number, row = next(self._records, (0, []))
        try:
            return cast(Sequence[str], self._cells(row))
        except BadRow as bad:
            raise self._error(number, bad) from None

    def _rows(self) -> Iterator[tuple[int, Any]]:
        return self._records

    def _cells(self, row: Any) -> Any:
        if isinstance(row, _Line):
            raise row.bad
        self._check_text("".join(row))
        return row

    def _shown(self, row: Any) -> bytes | str:
        return row.text if isinstance(row, _Line) else self.layout.delimiter.join(row)

    @cached_property
    def _records(self) -> Iterator[tuple[int, list[str] | _Line]]:
        return self._parsed()

    def _parsed(self) -> Iterator[tuple[int, list[str] | _Line]]:
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
            width = width or len(self.layout.names or record)
            if error or (len(lines) > 1 and self._are_rows(lines[1:], width)):
                yield from enumerate(_refused(lines, number, error), number)
            elif record:
                yield number, record

    def _are_rows(self, lines: Sequence[str], width: int) -> bool:
        """Whether lines inside quotes are rows that a stray quote has swallowed.

        They are if each has as many cells as the header: text that has as many commas on every
        line by chance is rare once there are three of them.
        """
        if len(lines) * (width - 1) < 3:
            return False
        alone = csv.reader(lines, delimiter=self.layout.delimiter, quoting=csv.QUOTE_NONE)
        try:
            return all(len(cells) == width for cells in alone)
        except csv.Error:  # a long cell
            return False

    def _fed(self, lines: list[str]) -> Iterator[str]:
        """Lines as text; each is also put into the list."""
        for text in self._texts():
            lines.append(text.rstrip("\n"))
            yield text

    def _texts(self) -> Iterator[str]:
        for _, data in self._chunks:  # some spreadsheets end lines with \r alone
            yield from StringIO(data.decode(self._encoding, "surrogateescape"), newline="")


class _Line(NamedTuple):
    """A line of CSV that is part of no record."""

    bad: BadRow
    text: str


def _refused(lines: Sequence[str], number: int, error: csv.Error | None) -> Iterator[_Line]:
    """Lines from a number on that make no record: a reason for each."""
    if len(lines) == 1:
        yield _Line(BadRow("bad CSV", f"not CSV: {error}"), lines[0])
        return
    swallowed = f"{len(lines) - 1:,} lines, up to line {number + len(lines) - 1:,}"
    detail = f"a quote opens here that swallows {swallowed}; close it, or take it out"
    yield _Line(BadRow("quote left open", detail), lines[0])
    for line in lines[1:]:
        yield _Line(BadRow("swallowed by a quote left open", detail), line)


class _Objects(Table):
    """A row is a line of JSON, an object, whose keys name the columns."""

    names_in_rows = True

    def _head(self) -> Sequence[str]:
        number, line = self._first_line(stays=True)
        try:
            return tuple(self._cells(line)) if number else ()
        except BadRow as bad:
            raise self._error(number, bad) from None

    def _rows(self) -> Iterator[tuple[int, Any]]:
        return ((number, line) for number, line in super()._rows() if line.strip())

    def _cells(self, row: Any) -> Any:
        value = parse_json(self._decoded(row))
        if not isinstance(value, dict):
            raise BadRow("not a JSON object", f"a {type(value).__name__}; expected a JSON object")
        return {fold(name): cell for name, cell in value.items()}

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        return lambda row: [*map(self._cells(row).get, columns)]


class _Parquet(Table):
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

    def _head(self) -> Sequence[str]:
        return cast(Sequence[str], self._parquet.schema_arrow.names)

    def _rows(self) -> Iterator[tuple[int, Any]]:
        """The cells of the columns alone."""
        written = dict(zip(self.names, self._parquet.schema_arrow.names, strict=True))
        group = self.layout.row_group
        with self._arrow("is damaged"):
            for batch in self._parquet.iter_batches(
                BLOCK_ROWS,
                row_groups=None if group is None else [group],
                columns=[written[name] for name in {*self._columns} & {*written}],
            ):
                columns = (
                    values(batch.column(written[name]) if name in written else None, len(batch))
                    for name in self._columns
                )
                for row in zip(*columns, strict=True):
                    self.lines += 1
                    yield self.lines, row

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        self._columns = columns

        def pick(row: Any) -> Cells:
            self._check_text("".join([cell for cell in row if isinstance(cell, str)]))
            return cast(Cells, row)

        return pick

    def _shown(self, row: Any) -> bytes | str:
        cells = dict(zip(self._columns, row, strict=True))
        return json.dumps(cells, default=str, ensure_ascii=False)

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._where}, row {number}: {bad.detail}.")

    @contextmanager
    def _arrow(self, fault: str) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise UserError(f"{self._where} {fault}: {reason}.") from error


_TYPES: dict[str, type[Table]] = {
    "txt": Table,
    "tsv": _TabSeparated,
    "csv": _Quoted,
    "jsonl": _Objects,
    "parquet": _Parquet,
}


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
    path: Path | str,
    columns: Sequence[str],
    make: Callable[[Cells], Any] = tuple,
    format: str = "",
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = (TITLE,),
) -> Iterator[tuple[int, Any]]:
    """The numbered rows of a whole file, as `Table.rows` has them; TSV if the name says nothing.

    Raises:
        UserError: the file cannot be read, lacks a column or has a bad row.
    """
    format = format or format_of(path, otherwise="tsv")
    with open_table(path, format, Layout(encoding, title_fields=title_fields)) as table:
        yield from table.rows(columns, make=make)


def parse_json(text: str) -> Any:
    """A value of JSON.

    Raises:
        BadRow: the text is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRow("not JSON", f"not JSON: {error}") from None
