"""Hard negatives: titles that a system ranks high for a query and nobody clicked for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dssm_tf.tables.cells import clean_text
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_table


class HardNegative(NamedTuple):
    """A title to tell from those that were clicked for a query.

    Args:
        query: as logged.
        title: as logged, or as the corpus has it.
        system: whose ranking it is of.
        rank: among the titles that could be negatives, from 1.
        score: of the system.
    """

    query: str
    title: str
    system: str
    rank: int
    score: float


def read_hard_negatives(path: Path | str) -> list[tuple[str, str]]:
    """The (query, title) pairs of a table with these two columns, in any format of `reader`.

    Raises:
        UserError: naming file and line; a column is missing, a text is empty, or there is no row.
    """
    columns = dict.fromkeys(("query", "title"), clean_text)
    return [pair for _, pair in read_rows(path, columns, expected="query and title")]


def write_hard_negatives(path: Path | str, rows: Iterable[HardNegative]) -> None:
    """Writes a table as TSV."""
    cells = ((one.query, one.title, one.system, str(one.rank), f"{one.score:.6g}") for one in rows)
    write_table(path, HardNegative._fields, cells)
