"""Rank, measure, compare: from rankers and judgments to an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult, values_of
from dssm_tf.evaluation.metrics import METRICS
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import Ranking, RelevantRanks, Scores, ranks_of, top_columns
from dssm_tf.evaluation.significance import compare
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import Run

DEPTH = 100
_CELLS = 1 << 20  # scores held at once: 8 MiB in double precision


class Measured(NamedTuple):
    """Where a system put the relevant titles, and the top of its ranking of each query."""

    ranks: RelevantRanks
    rankings: list[Ranking]


def evaluate(
    systems: Mapping[str, Ranker],
    judgments: Sequence[Judgment],
    corpus: Sequence[CorpusTitle] | None = None,
    *,
    runs: Mapping[str, Run] | None = None,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    metrics: Sequence[str] = METRICS,
    console: Console | None = None,
) -> Evaluation:
    """Measures systems on the same judgments by the same code.

    Without a corpus each query ranks its judged titles. With one, each query
    ranks the whole corpus and titles that are not judged have grade 0. Ties go
    by a hash of the title's text, see `ranking.tie_key`. Queries without a
    relevant title are left out of every mean and named in the result.

    Args:
        systems: rankers by the name to show.
        judgments: grades; a query's titles need not stand together.
        corpus: the titles to rank, or None.
        runs: rankings made elsewhere, by name, to measure as further systems.
            What a run does not list is not ranked.
        about: by system, what is known of it besides, see `SeedResult`.
        metrics: see `metrics.parse_metric`.
        console: where to show progress; None shows none.

    Raises:
        UserError: there is nothing to measure, names clash, a relevant title
            is not in the corpus, or a system's scores are not usable.
    """
    runs = dict(runs or {})
    names = [*systems, *runs]
    if len(set(names)) < len(names):
        clash = sorted(set(systems) & set(runs))
        raise UserError(f"a system and a run are both called {', '.join(clash)}; rename one.")
    if not names:
        raise UserError("there is no system to evaluate.")
    task = RankingTask(judgments, corpus)
    measured = {}
    rankings = {name: RunScores(name, run, task) for name, run in runs.items()}
    sources: dict[str, ScoreSource] = {
        **{name: RankerScores(ranker, task) for name, ranker in systems.items()},
        **rankings,
    }
    known = {name: {"notes": run.notes} for name, run in rankings.items()} | dict(about or {})
    for name, source in sources.items():
        with progress_of(name, len(task.queries), console, "queries") as one:
            measured[name] = measure(name, source, task, advance=one.advance)
    # TensorFlow takes seconds to import: not before the input has been found good.
    from dssm_tf.evaluation import tf_ranking

    rows = []
    for name, (ranks, tops) in measured.items():
        values = tf_ranking.per_query(ranks, metrics)
        result = SeedResult(None, values, tops, known.get(name, {}))
        rows.append(Row(name, "run" if name in runs else "system", [result]))
    tests = compare(values_of(rows, metrics), metrics)
    return Evaluation(task, tuple(metrics), rows, tests, against=tuple(names))


class ScoreSource(Protocol):
    """Anything that scores the titles of a task, some queries at a time."""

    def block(self, queries: NDArray[np.int64], columns: NDArray[np.int64] | None) -> Scores:
        """Scores `(queries, titles)`; -inf for a title that is not ranked.

        Args:
            queries: rows of `RankingTask.queries`.
            columns: places in `RankingTask.titles`, increasing; None for all titles.
        """
        ...


class RankerScores:
    """Scores of a ranker, some queries at a time."""

    def __init__(self, ranker: Ranker, task: RankingTask) -> None:
        self._ranker = ranker
        self._task = task

    def block(self, queries: NDArray[np.int64], columns: NDArray[np.int64] | None) -> Scores:
        """See `ScoreSource`."""
        texts = [self._task.queries[query] for query in queries]
        if columns is None:  # the same tuple every time, see Ranker.score_matrix
            titles = self._task.titles
        else:
            titles = tuple(self._task.titles[column] for column in columns)
        return np.asarray(self._ranker.score_matrix(texts, titles))


class RunScores:
    """Scores of a run, -inf where it lists nothing.

    Attributes:
        notes: what a reader of its figures has to know.

    Raises:
        UserError: it lists no judged query, or other titles, or a score is not finite.
    """

    def __init__(self, name: str, run: Run, task: RankingTask) -> None:
        for query_id, scores in run.items():
            for doc_id, score in scores.items():
                if not math.isfinite(score):
                    raise UserError(
                        f"run {name}: the score of {doc_id!r} for query {query_id!r} is {score}; "
                        "expected a finite number."
                    )
        if not set(run) & set(task.query_ids):
            raise UserError(
                f"run {name} has none of the judged query ids; "
                f"it has {sorted(run)[:3]}, the judgments {task.query_ids[:3]}."
            )
        listed = {doc_id for scores in run.values() for doc_id in scores}
        strange = sorted(listed - set(task.doc_ids))
        if strange and task.whole_corpus:
            raise UserError(
                f"run {name} ranks {len(strange)} titles that the corpus lacks, "
                f"{strange[0]!r} for one; evaluate it with the corpus it was made from."
            )
        if strange and len(strange) == len(listed):
            raise UserError(
                f"run {name} lists none of the judged titles; it has {strange[:3]}, the judgments "
                f"{list(task.doc_ids[:3])}."
            )
        self._run = run
        self._task = task
        self.notes = _run_notes(run, task, strange)

    def block(self, queries: NDArray[np.int64], columns: NDArray[np.int64] | None) -> Scores:
        """See `ScoreSource`."""
        width = len(self._task.titles) if columns is None else len(columns)
        scores = np.full((len(queries), width), -np.inf)
        for row, query in zip(scores, queries, strict=True):
            listed = self._run.get(self._task.query_ids[query], {})
            for doc_id, score in listed.items():
                for column in self._task.columns_of(doc_id):
                    place = column if columns is None else int(np.searchsorted(columns, column))
                    if place < width and (columns is None or columns[place] == column):
                        row[place] = score
        return scores


def _run_notes(run: Run, task: RankingTask, unjudged: Sequence[str]) -> list[str]:
    judged = set(task.query_ids)
    notes = []
    if missing := len(judged - set(run)):
        notes.append(
            f"lists nothing for {missing:,} of {len(judged):,} judged queries; they count as 0"
        )
    if strange := sorted(set(run) - judged):
        notes.append(
            f"lists {len(strange):,} queries that are not judged here, {strange[0]!r} for one; "
            "they are left out"
        )
    if unjudged:
        notes.append(
            f"lists {len(unjudged):,} titles that are not judged here, {unjudged[0]!r} for one; "
            "only judged titles are ranked"
        )
    return notes


def measure(
    name: str,
    source: ScoreSource,
    task: RankingTask,
    depth: int = DEPTH,
    advance: Callable[[int], object] | None = None,
) -> Measured:
    """Ranks every query of a task by a system's scores.

    Args:
        name: of the system, for messages.
        source: its scores.
        task: what is ranked.
        depth: titles of each ranking to keep.
        advance: called with the number of queries done since the last call.

    Raises:
        UserError: the scores have another shape than asked for, or are not finite.
    """
    rankings: list[Ranking] = []
    ranks: list[NDArray[np.int64]] = []
    for queries, columns in task.blocks(_CELLS):
        scores = source.block(queries, columns)
        expected = (len(queries), len(task.titles) if columns is None else len(columns))
        if scores.shape != expected:
            raise UserError(
                f"{name} gave scores of the shape {scores.shape} for {expected[0]} queries "
                f"and {expected[1]} titles; expected {expected}."
            )
        if np.isnan(scores).any() or np.isposinf(scores).any():
            row = int(np.argwhere(~(scores < np.inf))[0, 0])
            raise UserError(
                f"{name} gave a score that is not finite for the query "
                f"{task.queries[queries[row]]!r}; a model that diverged in training does that."
            )
        if columns is None:
            _rank_rows(scores, queries, task, depth, ranks, rankings)
        else:
            for row, query in enumerate(queries):
                own = np.searchsorted(columns, task.judged_columns[query])
                _rank_rows(scores[row : row + 1, own], queries[[row]], task, depth, ranks, rankings)
        if advance is not None:
            advance(len(queries))
    return Measured(
        RelevantRanks.from_lists(ranks, [task.relevant_grades(q) for q in range(len(ranks))]),
        rankings,
    )


def _rank_rows(
    scores: Scores,
    queries: NDArray[np.int64],
    task: RankingTask,
    depth: int,
    ranks: list[NDArray[np.int64]],
    rankings: list[Ranking],
) -> None:
    """Appends the ranks of the relevant titles and the top of the ranking of each query."""
    relevant = [task.relevant_places(query) for query in queries]
    rows = np.repeat(np.arange(len(queries)), [len(places) for places in relevant])
    places = np.concatenate([np.empty(0, np.int64), *relevant])
    found = ranks_of(scores, rows, places)
    ends = np.cumsum([len(each) for each in relevant])
    ranks.extend(np.split(found, ends[:-1]))
    for row, query in zip(scores, queries, strict=True):
        top = top_columns(row, depth)
        columns = top if task.whole_corpus else task.judged_columns[query][top]
        rankings.append(Ranking(columns.astype(np.int32), row[top].astype(np.float32)))
