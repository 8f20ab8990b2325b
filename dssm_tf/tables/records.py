"""Tables whose rows are records of their own format: CSV, JSON objects, Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import IO, Any, NamedTuple

import pyarrow as pa

from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout, spread
from dssm_tf.tables.lines import BLOCK_ROWS, Numbered, Table, TabSeparated, reading


class _Bad(NamedTuple):
    """A record of CSV that has no cells: why, and its text."""

    error: BadRow
    text: str


class Quoted(Table):
    """A row is a record of CSV: cells with commas between, in quotes perhaps and over lines."""

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        super().__init__(raw, where, layout)
        self._numbered = self._records()

    def _header(self) -> tuple[int, Any]:
        return next(self._numbered, (0, []))

    def _rows(self, columns: Sequence[str]) -> Numbered:
        return self._numbered

    def _cells(self, row: Any) -> Any:
        if isinstance(row, _Bad):
            raise row.error
        self._check_text(row)
        return row

    def _shown(self, row: Any) -> bytes | str:
        return row.text if isinstance(row, _Bad) else self.layout.delimiter.join(row)

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
                    yield number + at, _Bad(BadRow(reason, detail), line)
            elif error:
                yield number, _Bad(BadRow("bad CSV", f"not CSV: {error}"), lines[0])
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
        for _, found in self._left:  # some spreadsheets end lines with \r alone
            data = b"\n".join([*found, b""]) if found else b""
            for text in StringIO(data.decode(self._encoding, "surrogateescape"), newline=""):
                lines.append(text.rstrip("\n"))
                yield text


class Objects(Table):
    """A row is a line of JSON, an object, whose keys name the columns."""

    names_in_rows = True
    _blank_rows = False
    _header = TabSeparated._header

    def _cells(self, row: Any) -> Any:
        text = self._decoded(row)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRow("not JSON", f"not JSON: {error}") from None
        if not isinstance(value, dict):
            detail = f"a {type(value).__name__}; expected a JSON object"
            raise BadRow("not a JSON object", detail)
        return {self._name(name): cell for name, cell in value.items()}


class Parquet(Table):
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

    def _rows(self, columns: Sequence[str]) -> Numbered:
        columns = spread(columns, self.layout.title_fields)
        wanted = [name for name in self._parquet.schema_arrow.names if self._name(name) in columns]
        groups = None if self.layout.row_group is None else [self.layout.row_group]
        with reading(self._where):
            for batch in self._parquet.iter_batches(BLOCK_ROWS, groups, wanted):
                for row in zip(*map(_values, batch.columns), strict=True):
                    self.lines += 1
                    yield self.lines, dict(zip(map(self._name, wanted), row, strict=True))

    def _cells(self, row: Any) -> Any:
        self._check_text(row.values())
        return row

    def _shown(self, row: Any) -> bytes | str:
        return json.dumps(row, default=str, ensure_ascii=False)


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
