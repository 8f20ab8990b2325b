"""Runs: rankings as frames, a row a query and title.

The columns are `query` and `title`, their places in `RankingTask.queries` and `.titles`, `score` in
single precision, and `rank` from 1. Rows stand query by query, best first; equal scores go by
`title`, whose places are those of a hash of the titles' texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.trec import Run

DEPTH = 1000
"""Titles of each ranking that are kept; MAP is cut there."""

Scores = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""What `Ranker.score_matrix` is: from queries and titles to scores; -inf for a title that is not
ranked."""

_CELLS = 1 << 20  # scores held at once: 8 MiB in double precision
# Of queries that each have their own titles; more would score many titles for queries without them.
_QUERIES_WITH_OWN_TITLES = 32
_RANK = pl.int_range(1, pl.len() + 1).over("query").alias("rank")


def make_run(
    name: str,
    scores: Scores,
    task: RankingTask,
    depth: int = DEPTH,
    advance: Callable[[int], object] | None = None,
) -> pl.DataFrame:
    """Ranks the titles of every query.

    Args:
        name: of the system, for messages.
        scores: of the system.
        task: what is ranked.
        depth: titles of each ranking to keep.
        advance: called with the number of queries done since the last call.

    Raises:
        UserError: the scores have another shape than expected, or are not finite.
    """
    whole, found = task.ranks_corpus, []
    size = max(1, _CELLS // len(task.titles)) if whole else _QUERIES_WITH_OWN_TITLES
    for start in range(0, len(task.queries), size):
        queries = task.queries[start : start + size]
        judged = task.judged.filter(pl.col("query").is_between(start, start + size - 1))
        columns = np.arange(len(task.titles)) if whole else np.unique(judged["title"])
        titles = task.titles if whole else tuple(task.titles[one] for one in columns)
        table = np.asarray(scores(queries, titles))
        expected = (len(queries), len(titles))
        if table.shape != expected:
            raise UserError(
                f"{name} gave scores of the shape {table.shape} for {expected[0]} queries and "
                f"{expected[1]} titles; expected {expected}."
            )
        if not (table < np.inf).all():
            row = int(np.argwhere(~(table < np.inf))[0, 0])
            raise UserError(
                f"{name} gave a score that is not finite for the query {queries[row]!r}; the model "
                "may have diverged in training."
            )
        if not whole:  # each query its own titles
            own = np.full(table.shape, -np.inf)
            cells = judged["query"] - start, np.searchsorted(columns, judged["title"])
            own[cells] = table[cells]
            table = own
        tops = [top_columns(scored, depth) for scored in table]
        rows, places = np.repeat(range(len(tops)), list(map(len, tops))), np.concatenate(tops)
        block = {"query": rows + start, "title": columns[places], "score": table[rows, places]}
        found.append(pl.DataFrame(block))
        if advance is not None:
            advance(len(queries))
    return ranked(pl.concat(found), depth)


def ranked(scores: pl.DataFrame, depth: int = DEPTH) -> pl.DataFrame:
    """A run of scored titles, `query`, `title` and `score`: equal scores go by `title`."""
    run = scores.sort("query", "score", "title", descending=[False, True, False])
    run = run.with_columns(_RANK, pl.col("score").cast(pl.Float32))
    return run.filter(pl.col("rank") <= depth)


def relevant_ranks(run: pl.DataFrame, task: RankingTask) -> pl.DataFrame:
    """The relevant titles with their ranks in a run: what every metric follows from."""
    return task.relevant.join(run, on=["query", "title"], how="left", maintain_order="left")


def trec_run(name: str, given: Run, task: RankingTask) -> tuple[pl.DataFrame, list[str]]:
    """A run made elsewhere, and what a reader of its figures has to know.

    Raises:
        UserError: it lists no judged query, or other titles, or a score is not finite.
    """
    rows = [(query_id, *pair) for query_id, scores in given.items() for pair in scores.items()]
    listed = pl.DataFrame(rows, ["query_id", "doc_id", "score"], orient="row")
    asked, known = {*task.query_ids}, {*task.doc_ids}
    unknown = {*listed["doc_id"]} - known
    if given.keys().isdisjoint(asked):
        raise UserError(
            f"run {name} has none of the judged query ids; it has {sorted(given)[:3]}, the "
            f"judgments {task.query_ids[:3]}."
        )
    if unknown and (task.ranks_corpus or known.isdisjoint(listed["doc_id"])):
        raise UserError(
            f"run {name} lists {len(unknown):,} titles that are not ranked here, {min(unknown)!r} "
            f"for one, the judgments have {list(task.doc_ids[:3])}; evaluate it with the corpus "
            "it was made from."
        )
    unusable = listed.filter(~pl.col("score").is_finite())
    if len(unusable):
        query_id, doc_id, score = unusable.row(0)
        raise UserError(
            f"run {name}: the score of {doc_id!r} for query {query_id!r} is {score}; "
            "expected a finite number."
        )
    for place, column, ids in (
        ("query", "query_id", task.query_ids),
        ("title", "doc_id", task.doc_ids),
    ):
        places = pl.DataFrame({place: range(len(ids)), column: ids})
        listed = listed.join(places, on=column)
    if not task.ranks_corpus:
        listed = listed.join(task.judged, on=["query", "title"], how="semi")
    facts = (
        (asked - {*given}, "judged queries are not listed; they count as 0"),
        ({*given} - asked, "listed queries are not judged here; they are left out"),
        (unknown, "listed titles are not judged here; only judged titles are ranked"),
    )
    notes = [f"{len(ids):,} {what}: {min(ids)!r} for one" for ids, what in facts if ids]
    return ranked(listed.select("query", "title", "score")), notes
