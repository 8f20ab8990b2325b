"""CSV files, whose quoted cells may contain separators and line ends."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO

from dssm_tf.tables.batches import Batch, RowBuilder, bad_text, has_surrogates
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import NUMERIC, Column
from dssm_tf.tables.delimited import read_lines
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import LineBlock, Lines

_BATCH_ROWS = 1 << 13


def read_csv(
    lines: Lines, layout: Layout, names: Sequence[str], columns: Sequence[Column]
) -> Iterator[Batch]:
    """Reads blocks without quotes as columns, and other blocks record by record."""
    for block in lines:
        if block.too_long or not (b'"' in block.data or _has_bare_return(block.data)):
            yield read_lines(block, layout, names, columns, layout.delimiter)
        else:
            yield from _quoted_batches(block, lines, layout, names, columns)


def _has_bare_return(data: bytes) -> bool:
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def _quoted_batches(
    block: LineBlock,
    lines: Lines,
    layout: Layout,
    names: Sequence[str],
    columns: Sequence[Column],
) -> Iterator[Batch]:
    """Reads the records of a block; the last record may continue in later blocks.

    The number of a record is that of its first line. All lines of a bad record are rejected.
    """
    rows = RowBuilder(names, [column.name for column in columns if column.name in names])
    separator, width = layout.delimiter, len(names)
    numeric = [index for index, name in enumerate(names) if name in NUMERIC]
    record_lines: list[str] = []
    texts = _TextLines(block, lines)

    def record_line_source() -> Iterator[str]:
        while (line := texts.next_line()) is not None:
            record_lines.append(line.rstrip("\n"))
            yield line

    reader = csv.reader(record_line_source(), delimiter=separator, strict=layout.strict_quotes)
    while texts.remaining:
        number = texts.number
        record_lines.clear()
        record: list[str] = []
        error: csv.Error | None = None
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error as raised:  # the next record starts on the next line
            error = raised
        if len(record_lines) > 1 and (
            error or _are_rows(record_lines[1:], separator, width, numeric)
        ):
            last = f"{number + len(record_lines) - 1:,}"
            detail = (
                f"a quote opens here and is not closed: it would contain {len(record_lines) - 1:,} "
                f"more lines, up to line {last}; close the quote, or remove it"
            )
            for offset, line in enumerate(record_lines):
                reason = "inside an unclosed quote" if offset else "unclosed quote"
                rows.reject(
                    number + offset, BadRow(reason, detail), line, _loose_cells(line, separator)
                )
        elif error:
            line = record_lines[0]
            bad = BadRow("bad CSV", f"not CSV: {error}")
            rows.reject(number, bad, line, _loose_cells(line, separator))
        elif record and (len(record) > 1 or record[0].strip() or len(names) == 1):
            text = separator.join(record)
            if text.isascii() or not has_surrogates(text):
                rows.add(number, record, text)
            else:
                rows.reject(number, bad_text(layout), text, record)
        if len(rows) >= _BATCH_ROWS:
            yield rows.batch()
    yield rows.batch()


def _loose_cells(line: str, separator: str) -> list[str]:
    """The cells of a line whose quotes may be unbalanced."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return line.split(separator)


class _TextLines:
    """Lines of a block, and of later blocks if a record continues there.

    Args:
        block: the block with the first line.
        lines: the later blocks.

    Attributes:
        remaining: the unread lines of the current block, the next one last.
        number: number of the next line in the file.
    """

    def __init__(self, block: LineBlock, lines: Lines) -> None:
        self._lines = lines
        self.remaining: list[str] = []
        self.number = block.first
        self._fill(block)

    def _fill(self, block: LineBlock) -> None:
        text = block.data.decode("utf-8", "surrogateescape")
        # Some spreadsheets end lines with \r alone.
        self.remaining = [*StringIO(text, newline="")][::-1]

    def next_line(self) -> str | None:
        """The next line with its line end; None at the end of the file."""
        if not self.remaining:
            block = self._lines.next_block()
            if block is None:
                return None
            self._fill(block)
        self.number += 1
        return self.remaining.pop()


def _are_rows(lines: Sequence[str], separator: str, width: int, numeric: Sequence[int]) -> bool:
    """Whether the further lines of a quoted record look like rows, so that its quote is stray.

    All lines must have as many cells as the header, and all but the last must have numbers in the
    numeric columns. The result is False for fewer than two lines, or without numeric columns.
    """
    if not numeric or len(lines) < 2 or lines[-1].count(separator) != width - 1:
        return False
    for line in lines[:-1]:  # the last line contains the closing quote
        cells = line.split(separator)
        if len(cells) != width or not all(_NUMBER.fullmatch(cells[index]) for index in numeric):
            return False
    return True


_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
