"""Tables of judgments and corpora."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.columns import CORPUS, JUDGMENTS, stored
from dssm_tf.tables.frames import TableSource, row_name
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import read
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, TextRules


class Judgment(NamedTuple):
    """The grade of a title for a query: 0 is bad, higher is better, fractions are allowed."""

    query_id: str
    query: str
    doc_id: str
    title: str
    grade: float


class CorpusTitle(NamedTuple):
    """A title to rank."""

    doc_id: str
    title: str


def read_judgments(path: TableSource, layout: Layout | None = None) -> list[Judgment]:
    """Reads a judgments table, `query_id query doc_id title grade`.

    A pair with several judgments, for example by several raters, has the mean of its grades.

    Args:
        path: the table: a file of any format, or a data frame.
        layout: encoding, column names and other properties of the file.

    Raises:
        UserError: columns are missing, a grade is not a number from 0 to 100, an id is empty, a
            query id has two texts, or the file has no judgment. The message has file and line.
    """
    rows = read(path, JUDGMENTS, layout, expected="judgment")
    first_query = col.query.first().over("query_id")
    conflicts = rows.with_columns(first_query=first_query).filter(col.query != col.first_query)
    if len(conflicts):
        row = conflicts.row(0, named=True)
        raise UserError(
            f"{row_name(path, row[LINE])}: query_id {row['query_id']!r} has the text "
            f"{row['query']!r} here and {row['first_query']!r} above; give each query its own id."
        )
    pairs = rows.group_by("query_id", "doc_id", maintain_order=True).agg(
        col.query.first(), col.title.first(), "grade"
    )
    return [
        Judgment(query_id, query, doc_id, title, fmean(grades))
        for query_id, doc_id, query, title, grades in pairs.iter_rows()
    ]


def read_corpus(path: TableSource, layout: Layout | None = None) -> list[CorpusTitle]:
    """Reads a corpus table of any format, `doc_id title`.

    Args:
        path: the table: a file, or a data frame.
        layout: encoding, column names and other properties of the file.

    Raises:
        UserError: columns are missing, a doc id is empty or repeated, or the file has no title. The
            message has file and line.
    """
    return read_catalog(path, (), layout)[0]


def read_catalog(
    path: TableSource, names: Sequence[str], layout: Layout | None = None
) -> tuple[list[CorpusTitle], dict[str, list[str]]]:
    """Reads a corpus table and further columns.

    Args:
        path: the table.
        names: the names of the further columns; those of the fields of titles are left out.
        layout: encoding, column names and other properties of the file.

    Returns:
        The titles, and the cells by column, of equal length. Missing cells, and markers of missing
        values such as `null` and `n/a`, are empty.

    Raises:
        UserError: see `read_corpus`; a column is missing or named twice.
    """
    title_fields = () if layout is None else layout.title_fields
    names = [name for name in names if name not in title_fields]
    reserved = {column.name for column in CORPUS}
    for name in names:
        if name in reserved or names.count(name) > 1:
            reason = "is stored already" if name in reserved else "is named twice"
            raise UserError(f"The column {name!r} {reason}; name further columns once.")
    columns = [*CORPUS, *map(stored, names)]
    rows = read(path, columns, layout, expected="title")
    if len(repeats := rows.filter(~col.doc_id.is_first_distinct())):
        row = repeats.row(0, named=True)
        raise UserError(
            f"{row_name(path, row[LINE])}: doc_id {row['doc_id']!r} is repeated; give each title "
            "its own id."
        )
    titles = [*map(CorpusTitle._make, rows.select("doc_id", "title").iter_rows())]
    return titles, {name: rows[name].to_list() for name in names}


def write_judgments(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes a judgments table that `read_judgments` reads back."""
    rows = ((*judgment[:4], f"{judgment.grade:.9g}") for judgment in judgments)
    write_table(path, Judgment._fields, rows)


def write_corpus(path: Path | str, corpus: Iterable[CorpusTitle]) -> None:
    """Writes a corpus table that `read_corpus` reads back."""
    write_table(path, CorpusTitle._fields, corpus)


def judgments_from_clicks(
    clicks: Iterable[tuple[str, str, float]],
    rules: TextRules,
    titles: Mapping[str, str],
) -> list[Judgment]:
    """Grades titles by their clicks, for logs without judgments.

    For each query, the most clicked title (or several, if they tie) has grade 3, titles with at
    least half of its clicks have grade 2, and other clicked titles have grade 1. Queries with the
    same key are one query, in their first spelling. Queries without a word are left out.

    Args:
        clicks: `(query, doc_id, clicks)`; clicks of repeated pairs are summed.
        rules: rules that define the keys of queries.
        titles: the titles by doc id.

    Returns:
        Judgments in order of appearance.
    """
    queries: dict[Key, tuple[str, dict[str, float]]] = {}
    for query, doc_id, count in clicks:
        if (key := rules.key(query)) and count > 0:
            _, counts = queries.setdefault(key, (query, {}))
            counts[doc_id] = counts.get(doc_id, 0.0) + count
    judgments = []
    for number, (query, counts) in enumerate(queries.values(), start=1):
        most_clicks = max(counts.values())
        for doc_id, count in counts.items():
            grade = 3.0 if count == most_clicks else 2.0 if 2 * count >= most_clicks else 1.0
            judgments.append(Judgment(f"q{number:06d}", query, doc_id, titles[doc_id], grade))
    return judgments
