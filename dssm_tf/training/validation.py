"""The ranking task of the validation queries, and its metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.title_queries import TitleQuery, draw_title_queries, titles_with_all_words
from dssm_tf.evaluation.intervals import interval, mean_intervals, small_sample_warning
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import ranks_of, tie_key
from dssm_tf.model.text_scorer import TextScorer, TextScores
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.text.rules import TextRules

CUTOFFS = (1, 3, 10)
NDCG_NAMES = [f"ndcg@{k}" for k in CUTOFFS]
GRADED_BY_CLICKS = (
    "Queries held out of training rank the titles of the log, and of the corpus if there is one; "
    "if these are more than `validation.titles`, a random sample of them. A query's most clicked "
    "title has grade 3, a title with at least half as many clicks 2, any other clicked title 1."
)
GRADED_BY_JUDGMENTS = (
    "Judged queries held out of training rank the titles that were judged for them, by their "
    "grades."
)

GRADED_BY_TITLES = (
    "There are no clicks and no judgments to validate on. Queries made from titles rank the titles "
    "of the corpus; if these are more than `validation.titles`, a random sample of them. A query "
    "is two to four words of a title; half of the queries have neighboring words, and half have a "
    "typing error. The title has grade 3, any other title with all of these words grade 1. No "
    "title was trained on with exactly these words as its query."
)
FROM_TITLES = "made from titles"
"""Follows a number of queries of `ValidationTask.from_titles` in messages."""

_MAX_TITLE_QUERIES = 500
_TITLE_QUERIES_SEED = 0  # one for all trainings, so that their metrics can be compared

# Scores in memory at once while validation queries are ranked: 4 MiB.
_MAX_SCORES = 1 << 20

Matrix = NDArray[np.float32]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class ValidationTask:
    """Validation queries, the titles they rank, and their grades.

    Args:
        queries: distinct queries.
        titles: distinct titles, in the order in which ties are ranked.
        grades: sparse `(queries, titles)`, above 0.
        description: the source of the grades, in one sentence.
        judged: sparse `(queries, titles)`, 1 for a judged pair: a query ranks its judged titles
            only. None if each query ranks all titles.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    grades: sparse.csr_array
    description: str = GRADED_BY_CLICKS
    judged: sparse.csr_array | None = None

    @classmethod
    def from_clicks(
        cls,
        data: Preprocessed,
        max_queries: int,
        max_titles: int,
        excluded_queries: Collection[int] = frozenset(),
    ) -> ValidationTask:
        """The task of the validation pairs: their queries rank the titles of log and corpus.

        Args:
            data: the preprocessed directory.
            max_queries: largest number of queries; the first ones are taken.
            max_titles: largest number of titles; the clicked ones and a random sample of the
                others are taken.
            excluded_queries: ids of queries to leave out.
        """
        pairs = data.splits["validation"]
        included = np.isin(data.ids("queries"), [*excluded_queries], invert=True)[pairs.query]
        queries = np.array([*dict.fromkeys(pairs.query[included].tolist())][:max_queries], np.int64)
        pairs = pairs.select(np.isin(pairs.query, queries))
        clicked = np.unique(pairs.titles[:, 0])
        title_indices = _titles_to_rank(data, clicked, max_titles)
        most_clicks = np.zeros(len(data.clicked))
        np.maximum.at(most_clicks, pairs.query, pairs.clicks)
        most_clicks = most_clicks[pairs.query]
        grades = 1.0 + (2 * pairs.clicks >= most_clicks) + (pairs.clicks == most_clicks)
        shape = len(data.clicked), data.spec.count("titles")
        all_grades = sparse.csr_array((grades, (pairs.query, pairs.titles[:, 0])), shape)
        return cls(
            tuple(data.texts("queries", queries.tolist())),
            tuple(data.texts("titles", title_indices)),
            all_grades[queries][:, title_indices],
        )

    @classmethod
    def from_titles(
        cls, data: Preprocessed, max_queries: int, max_titles: int, seed: int
    ) -> ValidationTask | None:
        """The task of queries that are made from titles; see `draw_title_queries`.

        The title of a query has grade 3. Any other title with all words of the query, before its
        typing error, has grade 1: it is not wrong, but the query was not made from it.

        Args:
            data: the preprocessed directory.
            max_queries: largest number of queries, each of another title.
            max_titles: largest number of titles; those of the queries and a random sample of the
                others are taken.
            seed: of the queries.

        Returns:
            None if no title has three different words.
        """
        queries = draw_title_queries(data, max_queries, seed)
        if not queries:
            return None
        of_queries = np.array([query.title for query in queries])
        titles = np.array(_titles_to_rank(data, np.unique(of_queries), max_titles))
        grades = sparse.lil_array((len(queries), len(titles)))
        for row, columns in enumerate(titles_with_all_words(data, titles, queries)):
            grades[row, columns] = 1.0
        column_of_title = np.argsort(titles)
        columns = column_of_title[np.searchsorted(titles, of_queries, sorter=column_of_title)]
        grades[np.arange(len(queries)), columns] = 3.0
        return cls(
            tuple(query.text for query in queries),
            tuple(data.texts("titles", titles.tolist())),
            grades.tocsr(),
            GRADED_BY_TITLES,
        )

    @classmethod
    def from_lists(
        cls, lists: Sequence[GradedList], rules: TextRules, max_queries: int
    ) -> ValidationTask | None:
        """The task of held-out lists; None if none of their titles has a grade above 0.

        Args:
            lists: the held-out lists.
            rules: decide which titles are equal.
            max_queries: largest number of queries; the first ones with a grade above 0 are taken.
        """
        lists = [judged for judged in lists if max(judged.values) > 0][:max_queries]
        if not lists:
            return None
        texts = {rules.key(title): title for judged in lists for title in judged.titles}
        keys = sorted(texts, key=tie_key)
        column = {key: index for index, key in enumerate(keys)}
        cells = [
            (row, column[rules.key(title)], value)
            for row, judged in enumerate(lists)
            for title, value in zip(judged.titles, judged.values, strict=True)
        ]
        rows, columns, values = zip(*cells, strict=True)
        grades = sparse.csr_array((values, (rows, columns)))
        judged_pairs = sparse.csr_array((np.ones(len(cells)), (rows, columns)))
        grades.eliminate_zeros()
        return cls(
            tuple(judged.query for judged in lists),
            tuple(texts[key] for key in keys),
            grades,
            GRADED_BY_JUDGMENTS,
            judged_pairs,
        )

    def ndcg(self, scores: TextScores) -> dict[str, float]:
        """Mean NDCG at each cutoff, without a bonus."""
        means = self.per_query(scores)[0].mean(axis=0)
        return dict(zip(NDCG_NAMES, means.tolist(), strict=True))

    def metrics_with_ci(self, scores: TextScores, bonus: Matrix | float = 0.0) -> dict[str, float]:
        """Mean NDCG by the score plus a bonus `(titles,)`, with intervals; see `mean_with_ci`."""
        return mean_with_ci(self.per_query(scores, [bonus])[0])

    def per_query(self, scores: TextScores, bonuses: Sequence[Matrix | float] = (0.0,)) -> Values:
        """NDCG of each query by the score plus a bonus `(titles,)`, for several bonuses.

        Queries rank the titles in blocks, so that memory stays bounded.

        Returns:
            `(bonuses, queries, cutoffs)`.
        """
        rows, columns = self.grades.nonzero()
        ranks = np.zeros((len(bonuses), len(rows)))
        block_size = max(1, _MAX_SCORES // max(1, len(self.titles)))
        for start in range(0, len(self.queries), block_size):
            block = slice(start, start + block_size)
            block_scores = scores.scores(block)
            cells = slice(*np.searchsorted(rows, [start, start + block_size]))
            for bonus_ranks, bonus in zip(ranks, bonuses, strict=True):
                ranked = self.mask_unranked(block_scores + bonus, block)
                bonus_ranks[cells] = ranks_of(ranked, rows[cells] - start, columns[cells])
        graded = pl.DataFrame({"query": rows, "grade": self.grades.data.astype(np.float64)})
        values = [
            per_query(graded.with_columns(rank=bonus_ranks), len(self.queries), NDCG_NAMES)
            for bonus_ranks in ranks
        ]
        return np.stack([np.stack([*by_name.values()], axis=1) for by_name in values])

    def mask_unranked(self, scores: Matrix, block: slice) -> Matrix:
        """The scores of a block of queries, with -inf for titles that a query does not rank."""
        if self.judged is None:
            return scores
        return np.where(self.judged[block].toarray(), scores, np.float32(-np.inf))


def _titles_to_rank(
    data: Preprocessed, required: NDArray[np.integer[Any]], max_titles: int
) -> list[int]:
    """Indices of the titles that validation queries rank, in the order in which ties are ranked.

    Args:
        data: the preprocessed directory.
        required: increasing indices of titles that are always ranked.
        max_titles: largest number of titles; a random sample of the others is added up to it.
    """
    titles = np.setdiff1d(np.arange(data.spec.count("titles")), required)
    count = max(0, max_titles - len(required))
    if len(titles) > count:
        # With the required titles only, the task would be easier than in a deployment.
        titles = np.random.default_rng(0).choice(titles, count, replace=False)
    indices = [*required.tolist(), *titles.tolist()]
    keys = [tie_key(data.rules.key(text)) for text in data.texts("titles", indices)]
    return [index for _, index in sorted(zip(keys, indices, strict=True))]


def validation_title_queries(data: Preprocessed) -> list[TitleQuery]:
    """The queries that a training may be validated on if the data have no clicks; else none.

    `title_task` uses the first of them.
    """
    if data.nonempty_splits:
        return []
    return draw_title_queries(data, _MAX_TITLE_QUERIES, _TITLE_QUERIES_SEED)


def title_task(data: Preprocessed, max_queries: int, max_titles: int) -> ValidationTask | None:
    """The task of queries made from titles that a training without clicks is validated on.

    Args:
        data: the preprocessed directory, without clicks.
        max_queries: largest number of queries; at most 500 are made.
        max_titles: largest number of titles.
    """
    count = min(max_queries, _MAX_TITLE_QUERIES)
    return ValidationTask.from_titles(data, count, max_titles, _TITLE_QUERIES_SEED)


def validation_notes(task: ValidationTask | None, data: Preprocessed) -> list[str]:
    """Lines for the terminal before training: warnings about the validation queries.

    Args:
        task: the validation task; None if no query is held out.
        data: the preprocessed directory.
    """
    if task is None:
        if data.nonempty_splits:
            return []
        return [
            "There is no validation, so training takes all epochs: no clicks and no judgments are "
            "held out, and no title has three different words to make a query of."
        ]
    count = len(task.queries)
    if task.description != GRADED_BY_TITLES:
        subject = "The best epoch and the weight of the log-prior are chosen on"
        return small_sample_warning(subject, count)
    subject = "The best weights are chosen on"
    return small_sample_warning(subject, count, FROM_TITLES) or [
        f"{subject} {count} queries {FROM_TITLES}, because no clicks and no judgments are held out."
    ]


def mean_with_ci(values: Values) -> dict[str, float]:
    """Mean NDCG at each cutoff, and the ends of the 95 % interval, `low ndcg@1`, `high ndcg@1`.

    Args:
        values: `(queries, cutoffs)`.
    """
    metrics = dict(zip(NDCG_NAMES, values.mean(axis=0).tolist(), strict=True))
    for name, (low, high) in zip(NDCG_NAMES, mean_intervals(values).tolist(), strict=True):
        metrics |= {f"low {name}": low, f"high {name}": high}
    return metrics


def format_ndcg(metrics: Mapping[str, float]) -> str:
    """The result of `mean_with_ci` in one line.

    >>> format_ndcg({f"{end}ndcg@{k}": 0.5 for end in ("", "low ", "high ") for k in CUTOFFS})
    'NDCG@1/3/10 0.500/0.500/0.500 (.500-.500/.500-.500/.500-.500)'
    """
    means = "/".join(f"{metrics[name]:.3f}" for name in NDCG_NAMES)
    intervals = "/".join(
        interval(metrics[f"low {name}"], metrics[f"high {name}"]) for name in NDCG_NAMES
    )
    return f"NDCG@{'/'.join(map(str, CUTOFFS))} {means} ({intervals})"


def score_task(scorer: TextScorer, task: ValidationTask) -> TextScores:
    """The scores of a task's queries and titles."""
    return scorer.compare(task.queries, task.titles)
