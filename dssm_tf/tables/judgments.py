"""Judgments, corpus, TREC run and qrels: read, written, checked.

Tables are UTF-8 TSV with a header and no quoting; `.gz` is read and written by
its name. Columns are found by name, so their order is free and further columns
are ignored.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.text.normalize import normalize

JUDGMENT_COLUMNS = ("query_id", "query", "doc_id", "title", "grade")
CORPUS_COLUMNS = ("doc_id", "title")
LARGEST_GRADE = 100.0  # the gain is 2^grade - 1, and 2^128 overflows single precision

Run = dict[str, dict[str, float]]
"""`run[query_id][doc_id]` is a score."""

Qrels = dict[str, dict[str, float]]
"""`qrels[query_id][doc_id]` is a grade."""


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
    path: Path | str, *, repeats: Literal["refuse", "mean"] = "refuse"
) -> list[Judgment]:
    """Reads a judgments table, `query_id query doc_id title grade`.

    Args:
        path: the table.
        repeats: what a pair that is judged more than once is: an error, or one
            judgment with the mean of its grades, as for several raters.

    Raises:
        UserError: naming file and line; columns are missing, a grade is not a
            number from 0 to 100, an id is empty, a pair is judged twice, a
            query id has two texts, or the file holds no judgment.
    """
    judgments: list[Judgment] = []
    grades: dict[tuple[str, str], list[float]] = {}
    lines: dict[tuple[str, str], int] = {}
    texts: dict[str, str] = {}
    for number, (query_id, query, doc_id, title, grade) in _rows(path, JUDGMENT_COLUMNS):
        where = f"{path}:{number}"
        _refuse_empty(where, query_id=query_id, doc_id=doc_id)
        pair = (query_id, doc_id)
        if pair in lines and repeats == "refuse":
            raise UserError(
                f"{where}: query {query_id!r} and doc_id {doc_id!r} are judged twice, here and on "
                f"line {lines[pair]}; keep one of the lines."
            )
        if texts.setdefault(query_id, query) != query:
            raise UserError(
                f"{where}: query_id {query_id!r} stands for {query!r} here "
                f"and for {texts[query_id]!r} above; give each query its own id."
            )
        grades.setdefault(pair, []).append(_grade(grade, where))
        if pair not in lines:
            lines[pair] = number
            judgments.append(Judgment(query_id, query, doc_id, title, 0.0))
    if not judgments:
        raise UserError(f"{path} has a header and no judgment; nothing can be measured with it.")
    return [
        judgment._replace(grade=fmean(grades[judgment.query_id, judgment.doc_id]))
        for judgment in judgments
    ]


def read_corpus(path: Path | str) -> list[CorpusTitle]:
    """Reads a corpus table, `doc_id title`.

    Raises:
        UserError: naming file and line; columns are missing, a doc id is empty
            or comes twice, or the file holds no title.
    """
    corpus: list[CorpusTitle] = []
    lines: dict[str, int] = {}
    for number, (doc_id, title) in _rows(path, CORPUS_COLUMNS):
        _refuse_empty(f"{path}:{number}", doc_id=doc_id)
        if doc_id in lines:
            raise UserError(
                f"{path}:{number}: doc_id {doc_id!r} stands on line {lines[doc_id]} already; "
                "give each title its own id."
            )
        lines[doc_id] = number
        corpus.append(CorpusTitle(doc_id, title))
    if not corpus:
        raise UserError(f"{path} has a header and no title; nothing can be ranked with it.")
    return corpus


def write_judgments(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes a judgments table that `read_judgments` reads back."""
    rows = ((*map(_one_line, judgment[:4]), format_grade(judgment.grade)) for judgment in judgments)
    _write_lines(path, ("\t".join(row) for row in (JUDGMENT_COLUMNS, *rows)))


def write_corpus(path: Path | str, corpus: Iterable[CorpusTitle]) -> None:
    """Writes a corpus table that `read_corpus` reads back."""
    rows = (map(_one_line, entry) for entry in corpus)
    _write_lines(path, ("\t".join(row) for row in (CORPUS_COLUMNS, *rows)))


def read_run(path: Path | str) -> Run:
    """Reads a TREC run: `query_id Q0 doc_id rank score tag`, white space between.

    The order is the scores'; the written rank and tag are not used, as in trec_eval.

    Raises:
        UserError: naming file and line; a line has not six columns, a score
            is not a number, or a title comes twice for a query.
    """
    return _read_trec(path, columns=6, value=4, name="score")


def read_qrels(path: Path | str) -> Qrels:
    """Reads TREC qrels: `query_id 0 doc_id grade`; negative grades (not judged) count as 0.

    Raises:
        UserError: naming file and line, as `read_run`; a grade is above `LARGEST_GRADE`.
    """
    qrels = _read_trec(path, columns=4, value=3, name="grade")
    for query_id, grades in qrels.items():
        for doc_id, grade in grades.items():
            if grade > LARGEST_GRADE:
                raise UserError(
                    f"{path}: the grade of {doc_id!r} for query {query_id!r} is {grade:g}; "
                    f"expected at most {LARGEST_GRADE:g} (the gain is 2^grade - 1)."
                )
    return {
        query_id: {doc_id: max(grade, 0.0) for doc_id, grade in grades.items()}
        for query_id, grades in qrels.items()
    }


def write_run(path: Path | str, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Writes a TREC run, best title first; equal scores keep the order they are given in.

    Args:
        path: file to write.
        run: scores by query id and doc id.
        tag: the system's name.
    """

    def lines() -> Iterator[str]:
        doc = cache(_token)  # the same ids come back with every query
        last = _token(tag)
        for query_id, scores in run.items():
            first = _token(query_id)
            ranked = sorted(scores.items(), key=lambda item: -item[1])
            for rank, (doc_id, score) in enumerate(ranked, start=1):
                yield f"{first} Q0 {doc(doc_id)} {rank} {score:.9g} {last}"

    _write_lines(path, lines())


def write_qrels(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes judgments as TREC qrels. Fractions stay fractions, which some tools refuse."""
    _write_lines(
        path,
        (
            f"{_token(judgment.query_id)} 0 {_token(judgment.doc_id)} "
            f"{format_grade(judgment.grade)}"
            for judgment in judgments
        ),
    )


def judgments_from_clicks(
    clicks: Iterable[tuple[str, str, float]], doc_ids: Mapping[str, str] | None = None
) -> list[Judgment]:
    """Grades titles by their clicks, for logs that nobody has judged.

    Per query: grade 3 for the most clicked title and ties, 2 for at least half
    of its clicks, else 1. Queries equal after normalisation are one query,
    shown in the form that came first; those without a word are left out.

    Args:
        clicks: `(query, title, clicks)`; repeats of a pair are added up.
        doc_ids: the corpus' id of each title; titles it lacks, or all titles
            when it is not given, are numbered in order of appearance.

    Returns:
        Judgments in order of appearance.
    """
    counts: dict[str, dict[str, float]] = defaultdict(dict)
    first_form: dict[str, str] = {}
    ids = dict(doc_ids or {})
    taken = set(ids.values())
    for query, title, count in clicks:
        key = normalize(query)
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


def _rows(path: Path | str, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields line numbers and the values of `columns`, in that order."""
    lines = _lines(path)
    _, head = next(lines, (0, ""))
    header = head.removeprefix("\N{BYTE ORDER MARK}").split("\t")
    if header == [""]:
        raise UserError(f"{path} is empty; expected a header: {' '.join(columns)} (tabs between).")
    missing = [column for column in columns if column not in header]
    if missing:
        raise UserError(
            f"{path}: the header is {header}; expected the columns {list(columns)}, "
            f"tabs between; missing: {', '.join(missing)}."
        )
    places = [header.index(column) for column in columns]
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise UserError(
                f"{path}:{number}: {len(cells)} columns; the header has {len(header)} "
                "(tabs between, no quoting)."
            )
        yield number, [cells[place] for place in places]


def _read_trec(
    path: Path | str, columns: int, value: int, name: str
) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        cells = line.split()
        where = f"{path}:{number}"
        if len(cells) != columns:
            raise UserError(
                f"{where}: {len(cells)} columns; a TREC line here has {columns}: "
                + (
                    "query_id Q0 doc_id rank score tag."
                    if columns == 6
                    else "query_id 0 doc_id grade."
                )
            )
        titles = table.setdefault(cells[0], {})
        if cells[2] in titles:
            raise UserError(f"{where}: title {cells[2]!r} comes twice for query {cells[0]!r}.")
        titles[cells[2]] = _number(cells[value], name, where)
    if not table:
        raise UserError(f"{path} is empty.")
    return table


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yields numbered lines without their ends, blank ones left out."""
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    line = raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}:{number}: not UTF-8 at byte {error.start + 1} of the line; "
                        "convert the file to UTF-8."
                    ) from error
                if line.strip() or number == 1:
                    yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def _write_lines(path: Path | str, lines: Iterable[str]) -> None:
    path = Path(path)
    if path.suffix == ".gz":
        with (
            atomic_write(path, "wb") as file,
            # No time stamp and no name, so equal content gives equal bytes.
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        ):
            for line in lines:
                packed.write(f"{line}\n".encode())
        return
    with atomic_write(path) as file:
        for line in lines:
            file.write(f"{line}\n")


def _grade(text: str, where: str) -> float:
    grade = _number(text, "grade", where)
    if not 0 <= grade <= LARGEST_GRADE:
        raise UserError(
            f"{where}: grade {text!r}; expected a number from 0 to {LARGEST_GRADE:g} "
            "(the gain is 2^grade - 1)."
        )
    return grade


def _number(text: str, name: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UserError(f"{where}: {name} {text!r} is not a number.")
    return number


def _refuse_empty(where: str, **ids: str) -> None:
    for name, value in ids.items():
        if not value.strip():
            raise UserError(f"{where}: the {name} is empty.")


def _one_line(text: str) -> str:
    """The text without what would end a cell or a line of a table."""
    return re.sub(r"[\t\r\n]+", " ", text)


def _token(text: str) -> str:
    """The text without white space, which TREC files use between columns: `%20` for a space."""
    return re.sub(r"\s", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)
