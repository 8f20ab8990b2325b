"""Tables of (query, title, number) to learn from: grades of people, scores of a teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, clean_text, number
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.table import Cells
from dssm_tf.tables.title_fields import TITLE
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules

_LARGEST_SCORE = 1e6  # float32 has no tenths beyond
_Parse = Callable[[object], float]


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
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = (TITLE,),
) -> list[GradedList]:
    """Reads judgments: the columns `query`, `title` and `grade` of a table of any format.

    Args:
        path: the table. Ids, as evaluations need them, are not read.
        max_grade: the best grade of the scale, which begins with 0.
        rules: which queries, and which titles, are one.
        encoding: of its text.
        title_fields: columns that a title is made of.

    Raises:
        UserError: naming file and line; a column is missing, a grade is off the scale, or the
            file holds no judgment.
    """

    def parse(cell: object) -> float:
        found = number(cell, "grade")
        if not 0 <= found <= max_grade:
            raise BadRow(
                "grade off the scale",
                f"grade {cell!r:.40}; expected 0 to {max_grade:g}, the scale of "
                "judgments.max_grade",
            )
        return found

    return _read(path, "grade", parse, rules, encoding, title_fields)


def read_scores(path: Path | str, rules: Rules, encoding: str = "utf-8") -> list[GradedList]:
    """Reads a teacher's scores: the columns `query`, `title` and `score`; see `read_grades`.

    A title of several fields stands in one column, joined as `dssm teach` writes it.

    Raises:
        UserError: naming file and line; a column is missing, a score is not a finite number, or
            the file holds no score.
    """

    def parse(cell: object) -> float:
        found = number(cell, "score")
        if abs(found) > _LARGEST_SCORE:
            raise BadRow(
                "score out of range",
                f"score {cell!r:.40}; expected a number from -{_LARGEST_SCORE:g} to "
                f"{_LARGEST_SCORE:g}",
            )
        return found

    return _read(path, "score", parse, rules, encoding, (TITLE,))


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
    parse: _Parse,
    rules: Rules,
    encoding: str,
    title_fields: tuple[str, ...],
) -> list[GradedList]:
    """Lists by normalised query; a pair that comes more than once has the mean of its values."""

    def row(cells: Cells) -> tuple[str, str, float]:
        query, title, value = cells
        return clean_text(query, "query"), clean_text(title, "title"), parse(value)

    first: dict[Key, str] = {}
    found: dict[Key, dict[Key, tuple[str, list[float]]]] = {}
    for _, (query, title, value) in read_rows(
        path, ("query", TITLE, column), row, encoding=encoding, title_fields=title_fields
    ):
        key = rules.key(query)
        first.setdefault(key, query)
        _, values = found.setdefault(key, {}).setdefault(rules.key(title), (title, []))
        values.append(value)
    if not found:
        raise UserError(f"{path} has a header and no {column}; nothing can be learned from it.")
    return [
        GradedList(
            first[key],
            tuple(title for title, _ in titles.values()),
            tuple(fmean(values) for _, values in titles.values()),
        )
        for key, titles in found.items()
    ]


def deal(one: GradedList, most: int) -> Sequence[GradedList]:
    """A list as several of at most so many titles, each of them with good and bad ones.

    They are dealt out like cards, the best first.
    """
    hands = -(-len(one.titles) // most)
    if hands == 1:
        return [one]
    order = sorted(range(len(one.titles)), key=lambda place: -one.values[place])
    return [
        GradedList(
            one.query,
            tuple(one.titles[place] for place in order[hand::hands]),
            tuple(one.values[place] for place in order[hand::hands]),
        )
        for hand in range(hands)
    ]
