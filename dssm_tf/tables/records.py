"""Tables whose rows are records of their own format: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import BLOCK_ROWS, Rows, Table, WithHeader, reading


class Quoted(WithHeader):
    """A row is a record of CSV: cells with commas between, in quotes perhaps and over lines."""

    def _numbered(self) -> Rows:
        """Records, each with the line where it starts; a bad one line by line."""
        sign, width = self.layout.delimiter, 0
        lines: list[str] = []  # of a record
        reader = csv.reader(self._fed(lines), delimiter=sign, strict=self.layout.strict_quotes)
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
            if len(lines) > 1 and (error or self._are_rows(lines[1:], width)):
                swallowed = f"{len(lines) - 1:,} lines, up to line {number + len(lines) - 1:,}"
                detail = f"a quote opens here that swallows {swallowed}; close it, or take it out"
                for at, line in enumerate(lines):
                    reason = "swallowed by a quote left open" if at else "quote left open"
                    yield number + at, BadRow(reason, detail), line
            elif error:
                yield number, BadRow("bad CSV", f"not CSV: {error}"), lines[0]
            elif record:
                yield number, self._checked(record), sign.join(record)

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
            for text in StringIO(data.decode("utf-8", "surrogateescape"), newline=""):
                lines.append(text.rstrip("\n"))
                yield text


class Parquet(Table):
    """A row is a row of Parquet; the schema names the columns."""

    _place = "{}, row {}"

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        super().__init__(raw, where, layout)
        with reading(where):
            self._file = parquet.ParquetFile(raw)
        self.names = tuple(map(self._name, self._file.schema_arrow.names))

    def _numbered(self) -> Rows:
        theirs = self._file.schema_arrow.names
        wanted = [name for name in theirs if self._name(name) in self._wanted]
        names = [*map(self._name, wanted)]
        with reading(self._where):
            for batch in self._file.iter_batches(BLOCK_ROWS, columns=wanted):
                for cells in zip(*map(_values, batch.columns), strict=True):
                    self.lines += 1
                    row = dict(zip(names, cells, strict=True))
                    yield self.lines, row, row


def _values(column: pa.Array) -> list[Any]:
    """A column's cells; bytes are text, and so are dates: Python's own end with the year 9999."""
    if pa.types.is_temporal(column.type) or pa.types.is_binary(column.type):
        column = column.cast(pa.string())
    return column.to_pylist()
