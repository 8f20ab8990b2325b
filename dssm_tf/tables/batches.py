"""Batches of rows, the output of every format: columns of strings, and rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.layout import Layout, Reject, reject

LINE = "#"
"""Column of frames with the number of each row: the line of a file, or the row of Parquet."""


class Batch(NamedTuple):
    """Consecutive rows of a file.

    Args:
        frame: cells as strings, null where there is none, and `LINE`.
        rejects: rows that could not be split into cells.
        row_text: maps a line number of the frame to the row as it is in the file.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    row_text: Callable[[int], str | bytes | Mapping[str, object]]


class Contents(NamedTuple):
    """An open file.

    Args:
        names: names of the columns; for JSON the keys of the first object; empty if the file is
            empty.
        names_in_file: the names as they are written in the file.
        batches: reads the remaining rows, once; ignores columns that the file lacks.
        line_count: number of lines, or rows of Parquet, read so far.
        splittable: whether reading can start after any line end.
        names_in_rows: whether every row names its cells.
        malformed: whether the names are unknown because the first object is malformed.
        row_format: format string of a row's location, from its file and number.
    """

    names: tuple[str, ...]
    names_in_file: tuple[str, ...]
    batches: Callable[[Sequence[Column]], Iterator[Batch]]
    line_count: Callable[[], int]
    splittable: Callable[[], bool]
    names_in_rows: bool = False
    malformed: bool = False
    row_format: str = "{}:{}"


class RowBuilder:
    """Builds a batch row by row.

    Args:
        names: names of the cells of a row.
        wanted: names of the columns of the batch.
    """

    def __init__(self, names: Sequence[str], wanted: Sequence[str]) -> None:
        self._names, self._wanted = names, wanted
        self._indices = [names.index(name) for name in wanted]
        self._numbers: list[int] = []
        self._cells: list[Sequence[str | None]] = []
        self._rejects: list[Reject] = []
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._numbers) + len(self._rejects)

    def add(self, number: int, cells: Sequence[str], text: str) -> None:
        """Adds a row; rejects it if its number of cells differs from that of the header."""
        if len(cells) != len(self._names):
            self.reject(number, wrong_count(len(cells), self._names), text, cells)
        else:
            self._numbers.append(number)
            self._cells.append([cells[index] for index in self._indices])
            self._texts[number] = text

    def reject(self, number: int, reason: BadRow, text: str, cells: Sequence[str]) -> None:
        """Adds a row that cannot be used."""
        self._rejects.append(reject(number, reason, text, clicks_of(cells, self._names)))

    def batch(self) -> Batch:
        """The rows added since the last batch."""
        columns = zip(*self._cells, strict=True) if self._cells else [()] * len(self._wanted)
        frame = pl.DataFrame(
            [
                *(
                    pl.Series(name, cells, dtype=pl.String)
                    for name, cells in zip(self._wanted, columns, strict=True)
                ),
                pl.Series(LINE, self._numbers, dtype=pl.Int64),
            ]
        )
        batch = Batch(frame, self._rejects, self._texts.__getitem__)
        self._numbers, self._cells, self._rejects, self._texts = [], [], [], {}
        return batch


def decode_line(line: bytes, layout: Layout) -> str:
    """Decodes a line without its end; raises `BadRow` if it is too long or not UTF-8."""
    if len(line) - line.endswith(b"\n") > layout.max_line_bytes:
        raise too_long(layout)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise bad_text(layout) from None


def too_long(layout: Layout) -> BadRow:
    """The reason to reject a row whose line is too long."""
    return BadRow("line too long", f"the line is longer than {layout.max_line_bytes:,} bytes")


def bad_text(layout: Layout) -> BadRow:
    """The reason to reject a row that cannot be decoded."""
    name = layout.encoding.upper()
    problem = f"the text is not {name}; give its encoding, such as --encoding cp1252"
    return BadRow(f"bad {name}", problem)


def wrong_count(cell_count: int, names: Sequence[str]) -> BadRow:
    """The reason to reject a row with more or fewer cells than the header."""
    return BadRow("wrong column count", f"{cell_count} columns; the header has {len(names)}")


def clicks_of(cells: Sequence[str], names: Sequence[str]) -> int | None:
    """Estimates the clicks of a row with more or fewer cells than the header.

    The extra or missing cell may be before or after the clicks, or the clicks are two cells, such
    as `8,270` in CSV without quotes. The largest candidate is returned.
    """
    if "clicks" not in names:
        return 1
    index = names.index("clicks")
    extra = len(cells) - len(names)  # negative if cells are missing
    candidates = [cells[i] for i in {index, index + extra} if 0 <= i < len(cells)]
    if extra > 0:
        candidates.append(",".join(cells[index : index + extra + 1]))
    counts = [lost_clicks(cell) for cell in candidates if cell.strip()]
    return max((count for count in counts if count is not None), default=None)


def wrong_kind(cell: str, column: Column, layout: Layout) -> BadRow:
    """The reason to reject a cell of the wrong type in JSON or Parquet."""
    name = layout.name_in_file(column.name)
    expected = {1: "text", 2: "text or a whole number"}.get(len(column.kinds), "a number")
    return BadRow(column.wrong_kind.format(name), f"{name!r} is {cell:.40}; expected {expected}")


def has_surrogates(text: str) -> bool:
    """Whether a text has surrogates, which stand for bytes that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
