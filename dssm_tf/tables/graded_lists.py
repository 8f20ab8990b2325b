"""Tables of (query, title, number) to learn from: grades of people, scores of a teacher."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dssm_tf.tables.cells import BadRow, clean_text, number
from dssm_tf.tables.layout import TITLE, Layout
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules

_LARGEST_SCORE = 1e6  # float32 has no tenths beyond


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


def read_grades(
    path: Path | str,
    max_grade: float,
    rules: Rules,
    layout: Layout | None = None,
) -> list[GradedList]:
    """Reads judgments: the columns `query`, `title` and `grade` of a table of any format.

    Args:
        path: the table. Ids, as evaluations need them, are not read.
        max_grade: the best grade of the scale, which begins with 0.
        rules: which queries, and which titles, are one.
        layout: what its name does not say.

    Raises:
        UserError: naming file and line; a column is missing, a grade is off the scale, or the
            file holds no judgment.
    """
    return _read(path, "grade", (0, max_grade), rules, layout)


def read_scores(path: Path | str, rules: Rules) -> list[GradedList]:
    """Reads a teacher's scores: the columns `query`, `title` and `score`; see `read_grades`.

    A title of several fields stands in one column, joined as `dssm teach` writes it.

    Raises:
        UserError: naming file and line; a column is missing, a score is not a finite number, or
            the file holds no score.
    """
    return _read(path, "score", (-_LARGEST_SCORE, _LARGEST_SCORE), rules)


def write_lists(
    path: Path | str,
    column: str,
    lists: Iterable[GradedList],
    title_fields: Sequence[str] = (TITLE,),
) -> None:
    """Writes a table that `read_grades` or `read_scores` reads back.

    Args:
        path: the table.
        column: `grade` or `score`.
        lists: one a query.
        title_fields: columns that a title is made of.
    """
    rows = (
        (one.query, title, f"{value:.7g}")
        for one in lists
        for title, value in zip(one.titles, one.values, strict=True)
    )
    write_table(path, ("query", TITLE, column), rows, title_fields)


def _read(
    path: Path | str,
    column: str,
    limits: tuple[float, float],
    rules: Rules,
    layout: Layout | None = None,
) -> list[GradedList]:
    """Lists by normalised query; a pair that comes more than once has the mean of its values."""

    def within(cell: object, name: str) -> float:
        value = number(cell, name)
        if not limits[0] <= value <= limits[1]:
            expected = "a number from {:g} to {:g}, see judgments.max_grade".format(*limits)
            raise BadRow(f"{name} off the scale", f"{name} {cell!r:.40}; expected {expected}")
        return value

    found: dict[Key, tuple[str, dict[Key, tuple[str, list[float]]]]] = {}
    columns = {"query": clean_text, TITLE: clean_text, column: within}
    for _, (query, title, value) in read_rows(path, columns, layout, expected=column):
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
