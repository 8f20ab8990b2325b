"""Runs: rankings as frames, a row a query and title.

The columns are `query` and `title`, their places in `RankingTask.queries` and `.titles`, `score` in
single precision, and `rank` from 1. Rows stand query by query, best first; equal scores go by
`title`, whose places are those of a hash of the titles' texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import Ranking, top_columns
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.trec import Run

DEPTH = 1000
"""Titles of each ranking that are kept; MAP is cut there."""

Scores = Callable[[NDArray[np.int64], NDArray[np.int64] | None], NDArray[np.floating[Any]]]
"""From rows of queries and places of titles, None for all, to scores `(queries, titles)`; -inf for
a title that is not ranked."""

_CELLS = 1 << 20  # scores held at once: 8 MiB in double precision
_RANK = pl.int_range(1, pl.len() + 1).over("query").alias("rank")


def by_ranker(ranker: Ranker, task: RankingTask) -> Scores:
    """The scores of a ranker."""

    def scores(
        queries: NDArray[np.int64], columns: NDArray[np.int64] | None
    ) -> NDArray[np.floating[Any]]:
        titles = task.titles if columns is None else tuple(task.titles[one] for one in columns)
        return np.asarray(ranker.score_matrix([task.queries[one] for one in queries], titles))

    return scores


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
    tops, found = [], []
    for queries, columns in task.blocks(_CELLS):
        table = scores(queries, columns)
        expected = (len(queries), len(task.titles) if columns is None else len(columns))
        if table.shape != expected:
            raise UserError(
                f"{name} gave scores of the shape {table.shape} for {expected[0]} queries and "
                f"{expected[1]} titles; expected {expected}."
            )
        if not (table < np.inf).all():
            row = int(np.argwhere(~(table < np.inf))[0, 0])
            raise UserError(
                f"{name} gave a score that is not finite for the query "
                f"{task.queries[queries[row]]!r}; the model may have diverged in training."
            )
        for query, row in zip(queries, table, strict=True):
            judged = task.judged_columns[query]
            own = row if columns is None else row[np.searchsorted(columns, judged)]
            top = top_columns(own, depth)
            tops.append(top if columns is None else judged[top])
            found.append(own[top])
        if advance is not None:
            advance(len(queries))
    return pl.DataFrame(
        {
            "query": np.repeat(np.arange(len(tops)), list(map(len, tops))),
            "title": np.concatenate(tops),
            "score": np.concatenate(found).astype(np.float32),
        }
    ).with_columns(_RANK)


def ranked(scores: pl.DataFrame, depth: int = DEPTH) -> pl.DataFrame:
    """A run of scored titles, `query`, `title` and `score` in double precision."""
    run = scores.sort("query", "score", "title", descending=[False, True, False])
    run = run.with_columns(_RANK, pl.col("score").cast(pl.Float32))
    return run.filter(pl.col("rank") <= depth)


def relevant_ranks(run: pl.DataFrame, task: RankingTask) -> pl.DataFrame:
    """The relevant titles with their ranks in a run: what every metric follows from."""
    return task.relevant.join(run, on=["query", "title"], how="left", maintain_order="left")


def rankings(run: pl.DataFrame, queries: int, depth: int = 100) -> list[Ranking]:
    """The top of each query's ranking."""
    top = run.filter(pl.col("rank") <= depth)
    ends = np.searchsorted(top["query"].to_numpy(), np.arange(1, queries))
    columns = np.split(top["title"].to_numpy(), ends)
    return list(map(Ranking, columns, np.split(top["score"].to_numpy(), ends)))


def trec_run(name: str, given: Run, task: RankingTask) -> tuple[pl.DataFrame, list[str]]:
    """A run made elsewhere, and what a reader of its figures has to know.

    Raises:
        UserError: it lists no judged query, or other titles, or a score is not finite.
    """
    queries = {query_id: place for place, query_id in enumerate(task.query_ids)}
    rows = [
        (query_id, doc_id, score)
        for query_id, scores in given.items()
        for doc_id, score in scores.items()
    ]
    listed = pl.DataFrame(rows, ["query_id", "doc_id", "score"], orient="row")
    unknown = sorted(set(listed["doc_id"]) - set(task.doc_ids))
    if not set(given) & set(queries):
        raise UserError(
            f"run {name} has none of the judged query ids; it has {sorted(given)[:3]}, the "
            f"judgments {task.query_ids[:3]}."
        )
    if unknown and (task.whole_corpus or len(unknown) == listed["doc_id"].n_unique()):
        raise UserError(
            f"run {name} lists {len(unknown):,} titles that are not ranked here, {unknown[0]!r} "
            f"for one, the judgments have {list(task.doc_ids[:3])}; evaluate it with the corpus "
            "it was made from."
        )
    if len(bad := listed.filter(~pl.col("score").is_finite())):
        query_id, doc_id, score = bad.row(0)
        raise UserError(
            f"run {name}: the score of {doc_id!r} for query {query_id!r} is {score}; "
            "expected a finite number."
        )
    titles = pl.DataFrame({"doc_id": task.doc_ids, "title": np.arange(len(task.doc_ids))})
    known = pl.DataFrame({"query_id": task.query_ids, "query": np.arange(len(queries))})
    found = listed.join(known, on="query_id").join(titles, on="doc_id")
    if not task.whole_corpus:
        found = found.join(task.judged, on=["query", "title"], how="semi")
    facts = (
        (set(queries) - set(given), "judged queries are not listed; they count as 0"),
        (set(given) - set(queries), "listed queries are not judged here; they are left out"),
        (unknown, "listed titles are not judged here; only judged titles are ranked"),
    )
    notes = [f"{len(ids):,} {what}: {min(ids)!r} for one" for ids, what in facts if ids]
    return ranked(found.select("query", "title", "score")), notes
