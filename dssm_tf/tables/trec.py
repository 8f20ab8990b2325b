"""TREC files, with columns separated by white space: runs (`.trec`) and qrels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import polars as pl

from dssm_tf.common.errors import UserError
from dssm_tf.tables import columns
from dssm_tf.tables.cells import MAX_GRADE
from dssm_tf.tables.columns import Column
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import scan
from dssm_tf.tables.writer import write_lines

RUN_NAMES = ("query_id", "Q0", "doc_id", "rank", "score", "tag")
QRELS_NAMES = ("query_id", "0", "doc_id", "grade")
MAX_SCORE = 3e38
"""Scores are ranked and written in single precision, whose maximum is 3.4e38."""

Run = dict[str, dict[str, float]]
"""`run[query_id][doc_id]` is a score."""


def _parse_qrels_grades(cells: pl.Series, name: str) -> tuple[pl.Series, columns.Bad]:
    """Parses grades; negative ones (not judged) become 0."""
    grades, bad = columns.numbers(maximum=MAX_GRADE)(cells, name)
    return grades.clip(0), bad


RUN: Sequence[Column] = (
    columns.identifier("query_id"),
    columns.identifier("doc_id"),
    columns.number("score", -MAX_SCORE, MAX_SCORE),
)
QRELS: Sequence[Column] = (*RUN[:2], Column("grade", _parse_qrels_grades, pl.Float64))


def read_run(path: Path | str, encoding: str = "utf-8") -> Run:
    """Reads a TREC run: `query_id Q0 doc_id rank score tag`.

    Titles are ordered by score; the rank and the tag are ignored, as in trec_eval.

    Raises:
        UserError: a line does not have six columns, a score is not a number or does not fit
            single precision, or a title is repeated for a query. The message has file and line.
    """
    run: Run = {}
    for frame in scan(path, RUN, Layout(encoding, names=RUN_NAMES), "trec"):
        for query_id, doc_id, score, line in frame.iter_rows():
            scores = run.setdefault(query_id, {})
            if doc_id in scores:
                raise UserError(
                    f"{path}:{line}: title {doc_id!r} is repeated for query {query_id!r}."
                )
            scores[doc_id] = score
    return run


def write_run(
    path: Path | str,
    run: Mapping[str, Mapping[str, float]] | Iterable[tuple[str, Mapping[str, float]]],
    tag: str,
) -> None:
    """Writes a TREC run, best title first; titles with equal scores stay in the order of `run`.

    Args:
        path: file to write.
        run: scores by query id and doc id; or pairs of a query id and its scores, which are
            written as they come.
        tag: name of the system.
    """
    token = cache(_token)  # ids repeat from query to query
    lines = (
        f"{token(query_id)} Q0 {token(doc_id)} {rank} {score:.9g} {token(tag)}"
        for query_id, scores in (run.items() if isinstance(run, Mapping) else run)
        for rank, (doc_id, score) in enumerate(sorted(scores.items(), key=lambda item: -item[1]), 1)
    )
    write_lines(path, lines)


def write_qrels(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes judgments as TREC qrels; fractional grades stay, although some tools reject them."""
    write_lines(
        path,
        (
            f"{_token(judgment.query_id)} 0 {_token(judgment.doc_id)} {judgment.grade:.9g}"
            for judgment in judgments
        ),
    )


def _token(text: str) -> str:
    """Replaces white space, which separates the columns of TREC files, by `%20`."""
    return re.sub(r"\s", "%20", text)
