"""Tables of queries and titles for training: grades, scores of a teacher, hard negatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dssm_tf.tables import columns
from dssm_tf.tables.layout import TITLE, Layout
from dssm_tf.tables.read import read
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, TextRules

SCORE_LIMITS = (-1e6, 1e6)
"""Limits of a teacher's scores; float32 cannot represent the tenths of larger ones."""


class GradedList(NamedTuple):
    """A query, titles for it, and the grade or score of each.

    Args:
        query: the first spelling of the query in the file.
        titles: texts that differ when normalized, in the order of the file.
        values: grades or scores, one per title.
    """

    query: str
    titles: tuple[str, ...]
    values: tuple[float, ...]


def write_lists(path: Path | str, column: str, lists: Iterable[GradedList]) -> None:
    """Writes a table that `read_lists` reads back.

    Args:
        path: the table.
        column: `grade` or `score`.
        lists: the lists, one per query.
    """
    rows = (
        (graded.query, title, f"{value:.7g}")
        for graded in lists
        for title, value in zip(graded.titles, graded.values, strict=True)
    )
    write_table(path, ("query", TITLE, column), rows)


def read_lists(
    path: Path | str,
    column: str,
    limits: tuple[float, float],
    rules: TextRules,
    layout: Layout | None = None,
) -> list[GradedList]:
    """Reads judgments or a teacher's scores: `query`, `title` and a column of numbers.

    A repeated pair has the mean of its numbers. Ids, which evaluations need, are not read.

    Args:
        path: the table, of any format.
        column: `grade` or `score`.
        limits: lower and upper limit of the numbers.
        rules: texts with the same key are equal.
        layout: encoding and column names; without it, titles of several fields are one column,
            joined as `dssm teach` writes them.

    Raises:
        UserError: a column is missing, a number is outside the limits, or the file has no row. The
            message has file and line.
    """
    queries: dict[Key, tuple[str, dict[Key, tuple[str, list[float]]]]] = {}
    table = read(path, columns.scores(column, limits), layout, expected=column)
    for query, title, value, _ in table.iter_rows():
        _, titles = queries.setdefault(rules.key(query), (query, {}))
        titles.setdefault(rules.key(title), (title, []))[1].append(value)
    lists = []
    for query, rows in queries.values():
        texts, values = zip(*rows.values(), strict=True)
        lists.append(GradedList(query, texts, tuple(map(fmean, values))))
    return lists


def chunk_list(graded: GradedList, max_titles: int) -> Sequence[GradedList]:
    """Splits a list into lists of at most `max_titles` titles, each with good and bad titles.

    Titles are sorted by value. With `n` chunks, each chunk gets every n-th title.
    """
    chunks = -(-len(graded.titles) // max_titles)
    if chunks == 1:
        return [graded]
    pairs = sorted(zip(graded.titles, graded.values, strict=True), key=lambda pair: -pair[1])
    return [
        GradedList(graded.query, *zip(*pairs[chunk::chunks], strict=True))
        for chunk in range(chunks)
    ]


class HardNegative(NamedTuple):
    """A title without clicks that a system ranks high for a query.

    Args:
        query: the query of the log.
        title: the title of the log or the corpus.
        system: the system that ranked the title.
        rank: rank among the possible negatives, from 1.
        score: score that the system gave.
    """

    query: str
    title: str
    system: str
    rank: int
    score: float


def read_hard_negatives(path: Path | str) -> list[tuple[str, str]]:
    """The (query, title) pairs of a table with these two columns, in any format.

    Raises:
        UserError: a column is missing, a text is empty, or there is no row. The message has file
            and line.
    """
    pair = columns.clean_text("query"), columns.clean_text(TITLE)
    rows = read(path, pair, expected="query and title")
    return [*rows.select("query", TITLE).iter_rows()]


def write_hard_negatives(path: Path | str, rows: Iterable[HardNegative]) -> None:
    """Writes a table as TSV."""
    cells = ((*row[:3], str(row.rank), f"{row.score:.6g}") for row in rows)
    write_table(path, HardNegative._fields, cells)
