"""Runs: rankings as frames with one row per query and title.

The columns are `query` and `title`, indices into `RankingTask.queries` and `.titles`; `score` in
single precision; and `rank` from 1. Rows are sorted by query and rank. Equal scores are ranked by
`title`, that is by a hash of the title's text (see `tie_key`).

A condensed run contains judged titles only, and its scores are in double precision (see
`condensed_run`).

With many queries, only the first titles of each ranking are in a run, see `run_depth`. Of the other
titles up to `DEPTH`, it has those that metrics need: the judged ones, and the last one, whose rank
is the number of ranked titles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.trec import Run

DEPTH = 1000
"""Number of titles of each ranking in a run; MAP ignores titles below."""

MIN_DEPTH = 100
"""Number of titles of each ranking in a run, however many queries there are."""

MAX_ROWS = 10_000_000
"""Maximum number of rows of a run, unless `MIN_DEPTH` titles per query are more.

A row takes 28 bytes of memory.
"""

ScoreFunction = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""From queries and titles to scores `(queries, titles)`, as `Ranker.score_matrix`; -inf for a title
that is not ranked."""

_CELLS = 1 << 20  # scores in memory at a time: 8 MiB in double precision
_MIN_BATCH = 8  # queries per call, because rankers look up an index by the hash of all titles
# Queries per call without a corpus. Each call scores the union of the queries' judged titles, so
# larger batches would compute more scores that no query needs.
_JUDGED_TITLES_BATCH = 32
_RANK = pl.int_range(1, pl.len() + 1).over("query").alias("rank")


class Rankings(NamedTuple):
    """A system's rankings of all queries.

    Attributes:
        run: the first titles of each ranking.
        condensed: a condensed run, see `condensed_run`.
    """

    run: pl.DataFrame
    condensed: pl.DataFrame


def rank_titles(
    name: str,
    score: ScoreFunction,
    task: RankingTask,
    depth: int = DEPTH,
    advance: Callable[[int], object] | None = None,
) -> Rankings:
    """Ranks the titles of every query.

    Args:
        name: name of the system, for messages.
        score: computes the system's scores.
        task: the queries and the titles to rank.
        depth: maximum number of titles per query in the run, which may have fewer, see
            `run_depth`; the condensed run has all judged titles.
        advance: called with the number of queries ranked since the last call.

    Raises:
        UserError: the scores have an unexpected shape, or are not finite.
    """
    ranks_corpus, frames, judged_scores = task.ranks_corpus, [], []
    size = max(_MIN_BATCH, _CELLS // len(task.titles)) if ranks_corpus else _JUDGED_TITLES_BATCH
    complete_depth = run_depth(len(task.queries))
    columns = np.arange(len(task.titles))
    for start in range(0, len(task.queries), size):
        queries = task.queries[start : start + size]
        first, end = np.searchsorted(task.judged["query"], [start, start + size])
        judged = task.judged[int(first) : int(end)]
        if not ranks_corpus:
            columns = np.unique(judged["title"])
        titles = task.titles if ranks_corpus else tuple(task.titles[column] for column in columns)
        table = np.asarray(score(queries, titles))
        expected = (len(queries), len(titles))
        if table.shape != expected:
            raise UserError(
                f"{name} returned scores of the shape {table.shape} for {expected[0]} queries and "
                f"{expected[1]} titles; expected {expected}."
            )
        if not (table < np.inf).all():
            row = int(np.argwhere(~(table < np.inf))[0, 0])
            raise UserError(
                f"{name} returned a score that is not finite for the query {queries[row]!r}; the "
                "model may have diverged in training."
            )
        cells = judged["query"] - start, np.searchsorted(columns, judged["title"])
        judged_scores.append(table[cells].astype(np.float64))
        if not ranks_corpus:  # keep each query's judged titles only
            masked = np.full(table.shape, -np.inf)
            masked[cells] = table[cells]
            table = masked
        tops = [top_columns(row, depth) for row in table]
        rows, indices = np.repeat(range(len(tops)), list(map(len, tops))), np.concatenate(tops)
        block = {"query": rows + start, "title": columns[indices], "score": table[rows, indices]}
        frames.append(abridge(rank_scores(pl.DataFrame(block), depth), judged, complete_depth))
        if advance is not None:
            advance(len(queries))
    scored = task.judged.with_columns(score=np.concatenate(judged_scores))
    return Rankings(pl.concat(frames), condensed_run(scored, task))


def run_depth(query_count: int) -> int:
    """The depth up to which a run has all titles of each ranking; smaller for many queries.

    >>> run_depth(10_000), run_depth(50_000), run_depth(1_000_000)
    (1000, 200, 100)
    """
    return min(DEPTH, max(MIN_DEPTH, MAX_ROWS // max(1, query_count)))


def abridge(run: pl.DataFrame, judged: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Keeps the first `depth` titles per query, the judged titles, and the last title.

    Args:
        run: a run up to `DEPTH`.
        judged: `query` and `title` of all judged titles of these queries.
        depth: see `run_depth`.
    """
    if depth >= DEPTH:
        return run
    pairs = judged.select("query", "title", is_judged=pl.lit(True))
    marked = run.join(pairs, on=["query", "title"], how="left", maintain_order="left")
    rank = pl.col("rank")
    is_needed = (rank <= depth) | pl.col("is_judged") | (rank == rank.max().over("query"))
    return marked.filter(is_needed.fill_null(False)).drop("is_judged")


def rank_scores(scores: pl.DataFrame, depth: int = DEPTH) -> pl.DataFrame:
    """Ranks a frame of `query`, `title` and `score`; equal scores are ranked by `title`."""
    run = _sort(scores).with_columns(_RANK, pl.col("score").cast(pl.Float32))
    return run.filter(pl.col("rank") <= depth)


def condensed_run(scores: pl.DataFrame, task: RankingTask) -> pl.DataFrame:
    """Ranks the judged titles only, as if no others existed: condensed lists.

    Args:
        scores: `query`, `title` and `score`; -inf for a title that is not ranked.
        task: the judgments.

    Returns:
        A run whose ranks count judged titles only, of any depth. Its scores stay in double
        precision, because ties matter in `concordance`.

    Reference: Sakai 2007, "Alternatives to Bpref".
    """
    ranked_titles = scores.select("query", "title", "score").filter(pl.col("score") > -np.inf)
    judged = ranked_titles.join(task.judged, on=["query", "title"], how="semi")
    return _sort(judged).with_columns(_RANK)


def _sort(scores: pl.DataFrame) -> pl.DataFrame:
    return scores.sort("query", "score", "title", descending=[False, True, False])


def relevant_ranks(run: pl.DataFrame, task: RankingTask) -> pl.DataFrame:
    """The relevant titles with their ranks in a run, null if not ranked: the input of metrics."""
    # A join needs memory for each row of the right frame.
    listed = run.join(task.relevant, on=["query", "title"], how="semi")
    return task.relevant.join(listed, on=["query", "title"], how="left", maintain_order="left")


def trec_run(name: str, run: Run, task: RankingTask) -> tuple[Rankings, list[str]]:
    """Converts a run from a TREC file to indices of the task.

    Returns:
        The rankings, and notes about queries and titles that only the run or only the judgments
        have.

    Raises:
        UserError: the run has no judged query, has unknown titles, or a score is not finite.
    """
    rows = [(query_id, *pair) for query_id, scores in run.items() for pair in scores.items()]
    listed = pl.DataFrame(rows, ["query_id", "doc_id", "score"], orient="row")
    judged_ids, ranked_ids = {*task.query_ids}, {*task.doc_ids}
    unknown_ids = {*listed["doc_id"]} - ranked_ids
    if run.keys().isdisjoint(judged_ids):
        raise UserError(
            f"run {name} has none of the judged query ids; it has {sorted(run)[:3]}, the "
            f"judgments {task.query_ids[:3]}.{_hint(run, judged_ids)}"
        )
    if unknown_ids and (task.ranks_corpus or ranked_ids.isdisjoint(listed["doc_id"])):
        raise UserError(
            f"run {name} lists {len(unknown_ids):,} titles that are not ranked here, such as "
            f"{min(unknown_ids)!r}; the judgments have {list(task.doc_ids[:3])}. Evaluate the run "
            f"with the corpus it was made from.{_hint(unknown_ids, ranked_ids)}"
        )
    unusable = listed.filter(~pl.col("score").is_finite())
    if len(unusable):
        query_id, doc_id, score = unusable.row(0)
        raise UserError(
            f"run {name}: the score of {doc_id!r} for query {query_id!r} is {score}; "
            "expected a finite number."
        )
    for axis, column, ids in (
        ("query", "query_id", task.query_ids),
        ("title", "doc_id", task.doc_ids),
    ):
        indices = pl.DataFrame({axis: range(len(ids)), column: ids})
        listed = listed.join(indices, on=column)
    if not task.ranks_corpus:
        listed = listed.join(task.judged, on=["query", "title"], how="semi")
    mismatches = (
        (judged_ids - {*run}, "judged queries are not listed", "they count as 0"),
        ({*run} - judged_ids, "listed queries are not judged here", "they are left out"),
        (unknown_ids, "listed titles are not judged here", "only judged titles are ranked"),
    )
    notes = [
        f"{len(ids):,} {problem}, such as {min(ids)!r}; {consequence}"
        for ids, problem, consequence in mismatches
        if ids
    ]
    for unknown, known in (({*run} - judged_ids, judged_ids), (unknown_ids, ranked_ids)):
        notes += _similar_ids(unknown, known)
    scores = listed.select("query", "title", "score")
    run_frame = abridge(rank_scores(scores), task.judged, run_depth(len(task.queries)))
    return Rankings(run_frame, condensed_run(scores, task)), notes


def _similar_ids(unknown: Iterable[str], known: Iterable[str]) -> list[str]:
    """A note if unknown ids differ from known ones in case or leading zeros only.

    >>> _similar_ids(["007", "b"], ["7", "a"])
    ["1 listed ids differ from judged ones in case or leading zeros only, such as '007' and '7'"]
    """
    by_form = {_id_form(id): id for id in known}
    pairs = sorted((id, by_form[_id_form(id)]) for id in unknown if _id_form(id) in by_form)
    if not pairs:
        return []
    return [
        f"{len(pairs):,} listed ids differ from judged ones in case or leading zeros only, such as "
        f"{pairs[0][0]!r} and {pairs[0][1]!r}"
    ]


def _hint(unknown: Iterable[str], known: Iterable[str]) -> str:
    """The note of `_similar_ids` as the end of a message; empty if there is none."""
    return "".join(f" {note}." for note in _similar_ids(unknown, known))


def _id_form(id: str) -> str:
    """An id in lower case, without leading zeros of its numbers."""
    return re.sub(r"0*(\d+)", r"\1", id.lower())
