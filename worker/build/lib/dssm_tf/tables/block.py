"""Rows that follow each other, held column by column, and what is made of their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dssm_tf.tables.cells import BadRow

Read = Callable[[Any, str], Any]
"""Makes a value of a cell and its column's name; raises `BadRow` if the cell will not do."""
Faults = dict[int, BadRow]
"""Why the rows at some positions will not do."""


class Bad(NamedTuple):
    """A row that cannot be used, why, and what it looks like."""

    number: int
    error: BadRow
    text: bytes | str


class Block(NamedTuple):
    """Rows that follow each other, column by column.

    Args:
        numbers: of their lines, or of their rows in Parquet.
        columns: the cells of each, in a list or an Arrow array; None if the file lacks it.
        bad: rows among them that have no cells.
        shown: gives the text of the good row at a position.
    """

    numbers: Sequence[int]
    columns: list[Any]
    bad: list[Bad]
    shown: Callable[[int], bytes | str]

    def read(self, columns: Iterable[tuple[str, Read | None]]) -> Block:
        """The block of what is made of its cells; None leaves a column as it is."""
        faults: Faults = {}
        every = range(len(self.numbers))
        made = [
            read_cells(values(cells), read, name, every, faults) if read else values(cells)
            for (name, read), cells in zip(columns, self.columns, strict=True)
        ]
        return self._replace(columns=made).without(faults)

    def without(self, faults: Mapping[int, BadRow]) -> Block:
        """The block with the rows at some positions among the bad ones."""
        if not faults:
            return self
        kept = [at for at in range(len(self.numbers)) if at not in faults]
        bad = [Bad(self.numbers[at], fault, self.shown(at)) for at, fault in faults.items()]
        return Block(
            [self.numbers[at] for at in kept],
            [[column[at] for at in kept] for column in self.columns],
            sorted([*self.bad, *bad], key=lambda row: row.number),
            lambda at: self.shown(kept[at]),
        )


def read_cells(
    column: Sequence[Any], read: Read, name: str, positions: Iterable[int], faults: Faults
) -> list[Any]:
    """What is made of a column's cells at some positions; None of those that will not do.

    Args:
        column: the cells.
        read: makes a value of a cell.
        name: of the column.
        positions: which cells.
        faults: gets the first fault of each row.
    """
    made = []
    for at in positions:
        try:
            made.append(read(column[at], name))
        except BadRow as fault:
            faults.setdefault(at, fault)
            made.append(None)
    return made


def values(column: Any) -> list[Any]:
    """A column's cells in a list."""
    return column if isinstance(column, list) else column.to_pylist()
