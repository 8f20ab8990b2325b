"""TREC's files, white space between the columns: runs (`.trec`) and qrels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import polars as pl

from dssm_tf.common.errors import UserError
from dssm_tf.tables import columns
from dssm_tf.tables.cells import LARGEST_GRADE
from dssm_tf.tables.columns import Column
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import scan
from dssm_tf.tables.writer import write_lines

RUN_NAMES = ("query_id", "Q0", "doc_id", "rank", "score", "tag")
QRELS_NAMES = ("query_id", "0", "doc_id", "grade")
MOST_SCORE = 3e38
"""Scores are ranked and written in single precision, which ends at 3.4e38."""

Run = dict[str, dict[str, float]]
"""`run[query_id][doc_id]` is a score."""


def _qrels_grade(cells: pl.Series, name: str) -> tuple[pl.Series, columns.Bad]:
    """Grades; a negative one (not judged) counts as 0."""
    grades, bad = columns.numbers(most=LARGEST_GRADE)(cells, name)
    return grades.clip(0), bad


RUN: Sequence[Column] = (
    columns.identifier("query_id"),
    columns.identifier("doc_id"),
    columns.number("score", -MOST_SCORE, MOST_SCORE),
)
QRELS: Sequence[Column] = (*RUN[:2], Column("grade", _qrels_grade, pl.Float64))


def read_run(path: Path | str, encoding: str = "utf-8") -> Run:
    """Reads a TREC run: `query_id Q0 doc_id rank score tag`.

    The order is the scores'; the written rank and tag are not used, as in trec_eval.

    Raises:
        UserError: naming file and line; a line has not six columns, a score
            is no number or does not fit single precision, or a title comes twice for a query.
    """
    run: Run = {}
    for frame in scan(path, RUN, Layout(encoding, names=RUN_NAMES), "trec"):
        for query_id, doc_id, score, line in frame.iter_rows():
            scores = run.setdefault(query_id, {})
            if doc_id in scores:
                raise UserError(
                    f"{path}:{line}: title {doc_id!r} comes twice for query {query_id!r}."
                )
            scores[doc_id] = score
    return run


def write_run(path: Path | str, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Writes a TREC run, best title first; equal scores keep the order they are given in.

    Args:
        path: file to write.
        run: scores by query id and doc id.
        tag: the system's name.
    """
    token = cache(_token)  # the same ids come back with every query
    lines = (
        f"{token(query_id)} Q0 {token(doc_id)} {rank} {score:.9g} {token(tag)}"
        for query_id, scores in run.items()
        for rank, (doc_id, score) in enumerate(sorted(scores.items(), key=lambda one: -one[1]), 1)
    )
    write_lines(path, lines)


def write_qrels(path: Path | str, judgments: Iterable[Judgment]) -> None:
    """Writes judgments as TREC qrels. Fractions stay fractions, which some tools refuse."""
    write_lines(
        path,
        (f"{_token(one.query_id)} 0 {_token(one.doc_id)} {one.grade:.9g}" for one in judgments),
    )


def _token(text: str) -> str:
    """The text without white space, which TREC files use between columns: `%20` instead."""
    return re.sub(r"\s", "%20", text)
