"""Runs: rankings as frames, a row a query and title.

The columns are `query` and `title`, their places in `RankingTask.queries` and `.titles`, `score` in
single precision, and `rank` from 1. Rows stand query by query, best first; equal scores go by
`title`, whose places are those of a hash of the titles' texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import Ranking, RelevantRanks, top_columns
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.trec import Run

DEPTH = 1000
"""Titles of each ranking that are kept; MAP is cut there."""

Scores = Callable[[NDArray[np.int64], NDArray[np.int64] | None], NDArray[np.floating[Any]]]
"""From rows of queries and places of titles, None for all, to scores `(queries, titles)`; -inf for
a title that is not ranked."""

_CELLS = 1 << 20  # scores held at once: 8 MiB in double precision


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
                f"{task.queries[queries[row]]!r}; a model that diverged in training does that."
            )
        for query, row in zip(queries, table, strict=True):
            judged = task.judged_columns[query]
            own = row if columns is None else row[np.searchsorted(columns, judged)]
            top = top_columns(own, depth)
            tops.append(top if columns is None else judged[top])
            found.append(own[top])
        if advance is not None:
            advance(len(queries))
    lengths = [len(top) for top in tops]
    return pl.DataFrame(
        {
            "query": np.repeat(np.arange(len(tops)), lengths),
            "title": np.concatenate(tops),
            "score": np.concatenate(found).astype(np.float32),
        }
    ).with_columns(rank=pl.int_range(1, pl.len() + 1).over("query"))


def relevant_ranks(run: pl.DataFrame, task: RankingTask) -> RelevantRanks:
    """Where a run has the relevant titles: what every metric follows from."""
    found = task.relevant.join(run, on=["query", "title"], how="left", maintain_order="left")
    query, rank, grade = (
        found[name].fill_null(0).to_numpy() for name in ("query", "rank", "grade")
    )
    return RelevantRanks(len(task.queries), query, rank, grade)


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
    listed = {doc_id for scores in given.values() for doc_id in scores}
    unknown = sorted(listed - set(task.doc_ids))
    if not set(given) & set(task.query_ids):
        raise UserError(
            f"run {name} has none of the judged query ids; it has {sorted(given)[:3]}, the "
            f"judgments {task.query_ids[:3]}."
        )
    if unknown and (task.whole_corpus or len(unknown) == len(listed)):
        raise UserError(
            f"run {name} lists {len(unknown):,} titles that are not ranked here, {unknown[0]!r} "
            f"for one, the judgments have {list(task.doc_ids[:3])}; evaluate it with the corpus "
            "it was made from."
        )
    for query_id, scores in given.items():
        for doc_id, score in scores.items():
            if not math.isfinite(score):
                raise UserError(
                    f"run {name}: the score of {doc_id!r} for query {query_id!r} is {score}; "
                    "expected a finite number."
                )

    def block(
        queries: NDArray[np.int64], columns: NDArray[np.int64] | None
    ) -> NDArray[np.floating[Any]]:
        table = np.full((len(queries), len(task.titles)), -np.inf)
        for row, query in zip(table, queries, strict=True):
            for doc_id, score in given.get(task.query_ids[query], {}).items():
                row[list(task.columns_of(doc_id))] = score
        return table if columns is None else table[:, columns]

    judged = set(task.query_ids)
    facts = (
        (judged - set(given), "judged queries are not listed; they count as 0"),
        (set(given) - judged, "listed queries are not judged here; they are left out"),
        (unknown, "listed titles are not judged here; only judged titles are ranked"),
    )
    notes = [f"{len(ids):,} {what}: {min(ids)!r} for one" for ids, what in facts if ids]
    return make_run(name, block, task), notes
