"""Judgments and corpora: which titles there are, and how well they answer which query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, grade, identifier, one_line, text
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.table import Cells
from dssm_tf.tables.title_fields import TITLE
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules

JUDGMENT_COLUMNS = ("query_id", "query", "doc_id", "title", "grade")
CORPUS_COLUMNS = ("doc_id", "title")


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


def read_judgments(
    path: Path | str,
    *,
    repeats: Literal["refuse", "mean"] = "refuse",
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = (TITLE,),
    corpus: Sequence[CorpusTitle] | None = None,
) -> list[Judgment]:
    """Reads a judgments table, `query_id query doc_id title grade`.

    Args:
        path: the table, of any format of `reader`.
        repeats: what a pair that is judged more than once is: an error, or one
            judgment with the mean of its grades, as for several raters.
        encoding: of its text.
        title_fields: columns that a title is made of.
        corpus: with several fields, its titles take the place of the table's, by doc id: the
            table then needs only a column `title`.

    Raises:
        UserError: naming file and line; columns are missing, a grade is not a
            number from 0 to 100, an id is empty, a pair is judged twice, a
            query id has two texts, or the file holds no judgment.
    """
    whole: dict[str, str] = {}
    if corpus is not None and len(title_fields) > 1:
        title_fields, whole = (TITLE,), {one.doc_id: one.title for one in corpus}
    first: dict[tuple[str, str], tuple[int, Judgment]] = {}
    grades: dict[tuple[str, str], list[float]] = defaultdict(list)
    texts: dict[str, str] = {}
    for number, row in read_rows(
        path, JUDGMENT_COLUMNS, _judgment, encoding=encoding, title_fields=title_fields
    ):
        pair = (row.query_id, row.doc_id)
        known, _ = first.setdefault(pair, (number, row))
        if known != number and repeats == "refuse":
            raise UserError(
                f"{path}:{number}: query {row.query_id!r} and doc_id {row.doc_id!r} are judged "
                f"twice, here and on line {known}; keep one of the lines."
            )
        query = texts.setdefault(row.query_id, row.query)
        if query != row.query:
            raise UserError(
                f"{path}:{number}: query_id {row.query_id!r} stands for {row.query!r} here "
                f"and for {query!r} above; give each query its own id."
            )
        grades[pair].append(row.grade)
    if not first:
        raise UserError(f"{path} has a header and no judgment; nothing can be measured with it.")
    return [
        row._replace(grade=fmean(grades[pair]), title=whole.get(row.doc_id, row.title))
        for pair, (_, row) in first.items()
    ]


def read_corpus(
    path: Path | str, encoding: str = "utf-8", title_fields: tuple[str, ...] = (TITLE,)
) -> list[CorpusTitle]:
    """Reads a corpus table of any format of `reader`, `doc_id title`.

    Args:
        path: the table.
        encoding: of its text.
        title_fields: columns that a title is made of.

    Raises:
        UserError: naming file and line; columns are missing, a doc id is empty
            or comes twice, or the file holds no title.
    """
    found: dict[str, tuple[int, CorpusTitle]] = {}
    for number, row in read_rows(
        path, CORPUS_COLUMNS, corpus_title, encoding=encoding, title_fields=title_fields
    ):
        known, _ = found.setdefault(row.doc_id, (number, row))
        if known != number:
            raise UserError(
                f"{path}:{number}: doc_id {row.doc_id!r} stands on line {known} already; "
                "give each title its own id."
            )
    if not found:
        raise UserError(f"{path} has a header and no title; nothing can be ranked with it.")
    return [row for _, row in found.values()]


def corpus_title(cells: Cells) -> CorpusTitle:
    """A row of a corpus from its cells, `CORPUS_COLUMNS`.

    Raises:
        BadRow: they are none.
    """
    doc_id, title = cells
    return CorpusTitle(_id(doc_id, "doc_id"), one_line(text(title, "title")))


def write_judgments(
    path: Path | str, judgments: Iterable[Judgment], title_fields: Sequence[str] = (TITLE,)
) -> None:
    """Writes a judgments table that `read_judgments` reads back."""
    rows = ((*judgment[:4], format_grade(judgment.grade)) for judgment in judgments)
    write_table(path, JUDGMENT_COLUMNS, rows, title_fields)


def write_corpus(
    path: Path | str, corpus: Iterable[CorpusTitle], title_fields: Sequence[str] = (TITLE,)
) -> None:
    """Writes a corpus table that `read_corpus` reads back."""
    write_table(path, CORPUS_COLUMNS, corpus, title_fields)


def judgments_from_clicks(
    clicks: Iterable[tuple[str, str, float]],
    rules: Rules,
    doc_ids: Mapping[str, str] | None = None,
) -> list[Judgment]:
    """Grades titles by their clicks, for logs that nobody has judged.

    Per query: grade 3 for the most clicked title and ties, 2 for at least half
    of its clicks, else 1. Queries equal after normalisation are one query,
    shown in the form that came first; those without a word are left out.

    Args:
        clicks: `(query, title, clicks)`; repeats of a pair are added up.
        rules: which queries are one.
        doc_ids: the corpus' id of each title; titles it lacks, or all titles
            when it is not given, are numbered in order of appearance.

    Returns:
        Judgments in order of appearance.
    """
    counts: dict[Key, dict[str, float]] = defaultdict(dict)
    first_form: dict[Key, str] = {}
    ids = dict(doc_ids or {})
    taken = set(ids.values())
    for query, title, count in clicks:
        key = rules.key(query)
        if not key or count <= 0:
            continue
        first_form.setdefault(key, query)
        counts[key][title] = counts[key].get(title, 0.0) + count
        if title not in ids:
            number = len(taken) + 1
            while (made := f"d{number:06d}") in taken:
                number += 1
            ids[title] = made
            taken.add(made)
    return [
        Judgment(f"q{number:06d}", first_form[key], ids[title], title, _click_grade(count, titles))
        for number, (key, titles) in enumerate(counts.items(), start=1)
        for title, count in titles.items()
    ]


def format_grade(grade: float) -> str:
    """A grade as written in files: 2 as `2`, 1.33 as `1.33`."""
    return str(int(grade)) if grade == int(grade) else repr(float(grade))


def _click_grade(count: float, titles: Mapping[str, float]) -> float:
    most = max(titles.values())
    return 3.0 if count == most else 2.0 if 2 * count >= most else 1.0


def _judgment(cells: Cells) -> Judgment:
    query_id, query, doc_id, title, graded = cells
    return Judgment(
        _id(query_id, "query_id"),
        one_line(text(query, "query")),
        _id(doc_id, "doc_id"),
        one_line(text(title, "title")),
        grade(graded),
    )


def _id(value: object, name: str) -> str:
    found = one_line(identifier(value, name))
    if not found.strip():
        raise BadRow(f"empty {name}", f"the {name} is empty")
    return found
