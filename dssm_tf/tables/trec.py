"""TREC's files, white space between the columns: runs (`.trec`) and qrels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, grade, number
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_lines

_RUN = "query_id Q0 doc_id rank score tag"
_QRELS = "query_id 0 doc_id grade"

Run = dict[str, dict[str, float]]
"""`run[query_id][doc_id]` is a score."""


def read_run(path: Path | str, encoding: str = "utf-8") -> Run:
    """Reads a TREC run: `query_id Q0 doc_id rank score tag`.

    The order is the scores'; the written rank and tag are not used, as in trec_eval.

    Raises:
        UserError: naming file and line; a line has not six columns, a score
            is not a number, or a title comes twice for a query.
    """
    run: Run = {}
    reads = {"text": lambda text, _: run_line(text) if text.strip() else None}
    for line, (row,) in read_rows(path, reads, Layout(encoding), "txt"):
        if row:
            query_id, doc_id, score = row
            if doc_id in run.setdefault(query_id, {}):
                raise UserError(
                    f"{path}:{line}: title {doc_id!r} comes twice for query {query_id!r}."
                )
            run[query_id][doc_id] = score
    return run


def run_line(line: str) -> tuple[str, str, float]:
    """Query id, doc id and score of a line of a run.

    Raises:
        BadRow: it has not six columns, or the score is not a number.
    """
    cells = _columns(line, _RUN)
    return cells[0], cells[2], number(cells[4], "score")


def qrels_line(line: str) -> tuple[str, str, float]:
    """Query id, doc id and grade of a line of qrels; a negative grade (not judged) counts as 0.

    Raises:
        BadRow: it has not four columns, or the grade is not one.
    """
    cells = _columns(line, _QRELS)
    return cells[0], cells[2], grade(max(number(cells[3], "grade"), 0.0))


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


def _columns(line: str, columns: str) -> list[str]:
    cells = line.split()
    if len(cells) != columns.count(" ") + 1:
        raise BadRow("wrong column count", f"{len(cells)} columns; expected {columns}")
    return cells


def _token(text: str) -> str:
    """The text without white space, which TREC files use between columns: `%20` instead."""
    return re.sub(r"\s", "%20", text)
