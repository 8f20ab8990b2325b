"""Judgments and corpora: which titles there are, and how well they answer which query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import grade, identifier, text
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import Read
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules

JUDGMENT_COLUMNS: dict[str, Read] = {
    "query_id": identifier,
    "query": text,
    "doc_id": identifier,
    "title": text,
    "grade": grade,
}
CORPUS_COLUMNS = {name: JUDGMENT_COLUMNS[name] for name in ("doc_id", "title")}


class Judgment(NamedTuple):
    """How well one title answers one query: 0 is bad, higher is better, fractions allowed."""

    query_id: str
    query: str
    doc_id: str
    title: str
    grade: float


class CorpusTitle(NamedTuple):
    """One title that can be ranked."""

    doc_id: str
    title: str


def read_judgments(path: Path | str, layout: Layout | None = None) -> list[Judgment]:
    """Reads a judgments table, `query_id query doc_id title grade`.

    A pair that is judged more than once, as by several raters, has the mean of its grades.

    Args:
        path: the table, of any format of `reader`.
        layout: what its name does not say.

    Raises:
        UserError: naming file and line; columns are missing, a grade is not a
            number from 0 to 100, an id is empty, a query id has two texts, or the file holds no
            judgment.
    """
    found: dict[tuple[str, str], tuple[Judgment, list[float]]] = {}
    queries: dict[str, str] = {}
    for number, cells in read_rows(path, JUDGMENT_COLUMNS, layout, expected="judgment"):
        row = Judgment(*cells)
        query = queries.setdefault(row.query_id, row.query)
        if query != row.query:
            raise UserError(
                f"{path}:{number}: query_id {row.query_id!r} stands for {row.query!r} here "
                f"and for {query!r} above; give each query its own id."
            )
        found.setdefault((row.query_id, row.doc_id), (row, []))[1].append(row.grade)
    return [row._replace(grade=fmean(grades)) for row, grades in found.values()]


def read_corpus(path: Path | str, layout: Layout | None = None) -> list[CorpusTitle]:
    """Reads a corpus table of any format of `reader`, `doc_id title`.

    Args:
        path: the table.
        layout: what its name does not say.

    Raises:
        UserError: naming file and line; columns are missing, a doc id is empty
            or comes twice, or the file holds no title.
    """
    found: dict[str, CorpusTitle] = {}
    for number, row in read_rows(path, CORPUS_COLUMNS, layout, expected="title"):
        title = CorpusTitle(*row)
        if found.setdefault(title.doc_id, title) is not title:
            raise UserError(
                f"{path}:{number}: doc_id {title.doc_id!r} is there already; give each title its "
                "own id."
            )
    return [*found.values()]


def write_judgments(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes a judgments table that `read_judgments` reads back."""
    rows = ((*judgment[:4], f"{judgment.grade:.9g}") for judgment in judgments)
    write_table(path, JUDGMENT_COLUMNS, rows)


def write_corpus(path: Path | str, corpus: Iterable[CorpusTitle]) -> None:
    """Writes a corpus table that `read_corpus` reads back."""
    write_table(path, CORPUS_COLUMNS, corpus)


def judgments_from_clicks(
    clicks: Iterable[tuple[str, str, float]],
    rules: Rules,
    doc_ids: Mapping[str, str],
) -> list[Judgment]:
    """Grades titles by their clicks, for logs that nobody has judged.

    Per query: grade 3 for the most clicked title and ties, 2 for at least half
    of its clicks, else 1. Queries equal after normalisation are one query,
    shown in the form that came first; those without a word are left out.

    Args:
        clicks: `(query, title, clicks)`; repeats of a pair are added up.
        rules: which queries are one.
        doc_ids: the id of each title.

    Returns:
        Judgments in order of appearance.
    """
    queries: dict[Key, tuple[str, dict[str, float]]] = {}
    for query, title, count in clicks:
        if (key := rules.key(query)) and count > 0:
            _, titles = queries.setdefault(key, (query, {}))
            titles[title] = titles.get(title, 0.0) + count
    found = []
    for number, (query, titles) in enumerate(queries.values(), start=1):
        most = max(titles.values())
        for title, count in titles.items():
            earned = 3.0 if count == most else 2.0 if 2 * count >= most else 1.0
            found.append(Judgment(f"q{number:06d}", query, doc_ids[title], title, earned))
    return found
