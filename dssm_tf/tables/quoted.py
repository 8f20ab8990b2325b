"""CSV: cells that may be in quotes, with separators and line ends inside."""

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
    """Blocks without quotes at once; others record by record."""
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
    """The records of a block; the last may go on into the blocks that follow.

    A record has the number of the line where it starts. A bad one is read again line by line.
    """
    rows = RowBuilder(names, [column.name for column in columns if column.name in names])
    sign, width = layout.delimiter, len(names)
    numeric = [index for index, name in enumerate(names) if name in NUMERIC]
    record_lines: list[str] = []
    texts = _TextLines(block, lines)

    def fed() -> Iterator[str]:
        while (line := texts.take()) is not None:
            record_lines.append(line.rstrip("\n"))
            yield line

    reader = csv.reader(fed(), delimiter=sign, strict=layout.strict_quotes)
    while texts.left:
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
        if len(record_lines) > 1 and (error or _are_rows(record_lines[1:], sign, width, numeric)):
            last = f"{number + len(record_lines) - 1:,}"
            detail = (
                f"a quote opens here that swallows {len(record_lines) - 1:,} lines, up to line "
                f"{last}; close it, or take it out"
            )
            for offset, line in enumerate(record_lines):
                reason = "swallowed by a quote left open" if offset else "quote left open"
                rows.reject(number + offset, BadRow(reason, detail), line, _loose_cells(line, sign))
        elif error:
            line = record_lines[0]
            bad = BadRow("bad CSV", f"not CSV: {error}")
            rows.reject(number, bad, line, _loose_cells(line, sign))
        elif record and (len(record) > 1 or record[0].strip() or len(names) == 1):
            text = sign.join(record)
            if text.isascii() or not has_surrogates(text):
                rows.add(number, record, text)
            else:
                rows.reject(number, bad_text(layout), text, record)
        if len(rows) >= _BATCH_ROWS:
            yield rows.batch()
    yield rows.batch()


def _loose_cells(line: str, sign: str) -> list[str]:
    """The cells of a line whose quotes are not whole."""
    try:
        return next(csv.reader([line], delimiter=sign), [])
    except csv.Error:
        return line.split(sign)


class _TextLines:
    """Lines of a block, and of the blocks behind it if a record goes on there.

    Args:
        block: with the first line.
        lines: the blocks behind it.
    """

    def __init__(self, block: LineBlock, lines: Lines) -> None:
        self._lines = lines
        self.left: list[str] = []
        self.number = block.first
        self._fill(block)

    def _fill(self, block: LineBlock) -> None:
        text = block.data.decode("utf-8", "surrogateescape")
        # Some spreadsheets end lines with \r alone.
        self.left = [*StringIO(text, newline="")][::-1]

    def take(self) -> str | None:
        """The next line with its end."""
        if not self.left:
            block = self._lines.take_block()
            if block is None:
                return None
            self._fill(block)
        self.number += 1
        return self.left.pop()


def _are_rows(lines: Sequence[str], sign: str, width: int, numeric: Sequence[int]) -> bool:
    """Whether lines inside quotes are rows that a stray quote has swallowed.

    They are if each has as many cells as the header, and numbers where the header has columns of
    numbers. In a table without such columns nobody can tell.
    """
    if not numeric or len(lines) < 2 or lines[-1].count(sign) != width - 1:
        return False
    for line in lines[:-1]:  # the last one ends with the cells behind the quote
        cells = line.split(sign)
        if len(cells) != width or not all(_NUMBER.fullmatch(cells[index]) for index in numeric):
            return False
    return True


_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
