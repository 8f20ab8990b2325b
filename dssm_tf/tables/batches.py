"""What every format becomes: batches of columns of strings, and rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.layout import Layout, Reject, reject

LINE = "#"
"""The column of frames that numbers the rows: lines of the file, or rows of Parquet."""


class Batch(NamedTuple):
    """Rows that follow each other.

    Args:
        frame: cells as strings, null where there is none, and `LINE`.
        rejects: rows that could not be divided into cells.
        row_text: of a line of the frame, the row as the file has it.
    """

    frame: pl.DataFrame
    rejects: list[Reject]
    row_text: Callable[[int], str | bytes | Mapping[str, object]]


class Contents(NamedTuple):
    """An open file.

    Args:
        names: of its columns, of objects those of the first; none if the file is empty.
        names_in_file: the same as the file writes them.
        batches: reads the rows that are left, once: of these columns those that the file has.
        line_count: how many lines, or rows of Parquet, were read.
        splittable: whether it can be read from any line end on.
        names_in_rows: whether every row names its cells.
        malformed: whether the names are unknown because the first object is malformed.
        row_format: of a row, with its file and number.
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
    """Rows of cells that become a batch.

    Args:
        names: of the cells of a row.
        wanted: of those that the batch has.
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
        """Adds a row, or rejects one that has not as many cells as the header."""
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
        """What was added since the last batch."""
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


def decoded(line: bytes, layout: Layout) -> str:
    """A line without its end; raises `BadRow` if it is too long or of another encoding."""
    if len(line) - line.endswith(b"\n") > layout.longest:
        raise too_long(layout)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise bad_text(layout) from None


def too_long(layout: Layout) -> BadRow:
    """Why a row is refused whose line is too long."""
    return BadRow("line too long", f"the line is longer than {layout.longest:,} bytes")


def bad_text(layout: Layout) -> BadRow:
    """Why a row is refused whose bytes are not of the encoding."""
    name = layout.encoding.upper()
    return BadRow(f"bad {name}", f"not {name}; say what it is, such as --encoding cp1252")


def wrong_count(cells: int, names: Sequence[str]) -> BadRow:
    """Why a row is refused that has more or fewer cells than the header."""
    return BadRow("wrong column count", f"{cells} columns; the header has {len(names)}")


def clicks_of(cells: Sequence[str], names: Sequence[str]) -> int | None:
    """The clicks of a row that was not divided into as many cells as the header has.

    A cell too many or too few may stand before the clicks or behind them, or the clicks are two
    cells, as `8,270` is in CSV without quotes. Of several numbers the largest counts.
    """
    if "clicks" not in names:
        return 1
    index = names.index("clicks")
    more = len(cells) - len(names)
    candidates = [cells[i] for i in {index, index + more} if 0 <= i < len(cells)]
    if more > 0:
        candidates.append(",".join(cells[index : index + more + 1]))
    counts = [lost_clicks(cell) for cell in candidates if cell.strip()]
    return max((count for count in counts if count is not None), default=None)


def wrong_kind(shown: str, column: Column, layout: Layout) -> BadRow:
    """Why a cell is refused whose type in JSON or Parquet is another."""
    name = layout.name_in_file(column.name)
    expected = {1: "text", 2: "text or a whole number"}.get(len(column.kinds), "a number")
    return BadRow(column.wrong_kind.format(name), f"{name!r} is {shown:.40}; expected {expected}")


def has_surrogates(text: str) -> bool:
    """Whether a text has what stands for bytes that are not of the encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
