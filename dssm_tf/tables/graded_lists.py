"""Tables of queries and titles to learn from: grades, scores of a teacher, hard negatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dssm_tf.tables import columns
from dssm_tf.tables.layout import TITLE, Layout
from dssm_tf.tables.read import read
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules

SCORES = (-1e6, 1e6)  # float32 has no tenths beyond


class GradedList(NamedTuple):
    """A query, titles for it, and the grade or score of each.

    Args:
        query: as it came first in the file.
        titles: texts that differ when normalised, in the order of the file.
        values: one a title.
    """

    query: str
    titles: tuple[str, ...]
    values: tuple[float, ...]


def write_lists(path: Path | str, column: str, lists: Iterable[GradedList]) -> None:
    """Writes a table that `read_lists` reads back.

    Args:
        path: the table.
        column: `grade` or `score`.
        lists: one a query.
    """
    rows = (
        (one.query, title, f"{value:.7g}")
        for one in lists
        for title, value in zip(one.titles, one.values, strict=True)
    )
    write_table(path, ("query", TITLE, column), rows)


def read_lists(
    path: Path | str,
    column: str,
    limits: tuple[float, float],
    rules: Rules,
    layout: Layout | None = None,
) -> list[GradedList]:
    """Reads judgments or a teacher's scores: `query`, `title` and a column of numbers.

    A pair that comes more than once has the mean of its numbers. Ids, as evaluations need them, are
    not read.

    Args:
        path: the table, of any format.
        column: `grade` or `score`.
        limits: the least number and the largest.
        rules: which queries, and which titles, are one.
        layout: what its name does not say; without it, titles of several fields stand in one
            column, joined as `dssm teach` writes them.

    Raises:
        UserError: naming file and line; a column is missing, a number is not within the limits, or
            the file holds no row.
    """
    found: dict[Key, tuple[str, dict[Key, tuple[str, list[float]]]]] = {}
    table = read(path, columns.scores(column, limits), layout, expected=column)
    for query, title, value, _ in table.iter_rows():
        _, titles = found.setdefault(rules.key(query), (query, {}))
        titles.setdefault(rules.key(title), (title, []))[1].append(value)
    lists = []
    for query, rows in found.values():
        texts, values = zip(*rows.values(), strict=True)
        lists.append(GradedList(query, texts, tuple(map(fmean, values))))
    return lists


def deal(one: GradedList, most: int) -> Sequence[GradedList]:
    """A list as several of at most so many titles, each of them with good and bad ones.

    They are dealt out like cards, the best first.
    """
    hands = -(-len(one.titles) // most)
    if hands == 1:
        return [one]
    pairs = sorted(zip(one.titles, one.values, strict=True), key=lambda pair: -pair[1])
    return [GradedList(one.query, *zip(*pairs[hand::hands], strict=True)) for hand in range(hands)]


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
    """The (query, title) pairs of a table with these two columns, in any format.

    Raises:
        UserError: naming file and line; a column is missing, a text is empty, or there is no row.
    """
    pair = columns.clean_text("query"), columns.clean_text(TITLE)
    rows = read(path, pair, expected="query and title")
    return [*rows.select("query", TITLE).iter_rows()]


def write_hard_negatives(path: Path | str, rows: Iterable[HardNegative]) -> None:
    """Writes a table as TSV."""
    cells = ((*one[:3], str(one.rank), f"{one.score:.6g}") for one in rows)
    write_table(path, HardNegative._fields, cells)
