"""The ranking task of an evaluation: queries, the titles they rank, and grades."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.text.rules import FOLDED


class RankingTask:
    """Queries, titles, and the grades of titles for queries.

    Queries and titles are sorted by the `tie_key` of their text; equal texts are sorted by the
    `tie_key` of their id. Titles with equal scores are ranked in this order, so no metric depends
    on the order of the input.

    A judged title is looked up in the corpus by its doc id, else by its exact title. A judged title
    that is not in the corpus cannot be ranked. It is dropped if its grade is 0, which changes no
    metric, and is an error otherwise. It is also an error if most judged doc ids have a different
    title in the corpus, because the two files then number titles differently.

    Args:
        judgments: grades.
        corpus: the titles that every query ranks; None to rank each query's judged titles.

    Attributes:
        query_ids: ids of `queries`, in the same order.
        queries: texts, sorted.
        doc_ids: ids of `titles`, in the same order.
        titles: texts, sorted; without a corpus, one entry per doc id and title.
        judged: data frame of `query`, `title` (indices, as in a run) and `grade`; sorted.
        ranks_corpus: whether every query ranks the whole corpus.

    Raises:
        UserError: there is no judgment, a relevant title is not in the corpus, or no query has a
            relevant title.
    """

    def __init__(
        self, judgments: Sequence[Judgment], corpus: Sequence[CorpusTitle] | None = None
    ) -> None:
        ranked = judgments if corpus is None else corpus
        if not judgments or not ranked:
            raise UserError(
                "the evaluation has no judgment or no title; expected at least one of each."
            )
        self.ranks_corpus = corpus is not None
        entries = {(entry.doc_id, entry.title) for entry in ranked}
        ordered = sorted(entries, key=_sort_key)
        self.doc_ids = tuple(doc_id for doc_id, _ in ordered)
        self.titles = tuple(title for _, title in ordered)
        texts = {entry.query_id: entry.query for entry in reversed(judgments)}
        query_entries = sorted(texts.items(), key=_sort_key)
        self.query_ids = tuple(query_id for query_id, _ in query_entries)
        self.queries = tuple(query for _, query in query_entries)
        self.judged = self._as_indices(judgments)
        if not len(self.relevant):
            raise UserError(
                "no query has a title with a grade above 0, so no system can be measured."
            )

    @cached_property
    def relevant(self) -> pl.DataFrame:
        """The rows of `judged` with a grade above 0."""
        return self.judged.filter(pl.col("grade") > 0)

    @cached_property
    def has_relevant(self) -> NDArray[np.bool_]:
        """`(queries,)`, whether the query has a relevant title; means include only such queries."""
        return np.isin(np.arange(len(self.queries)), self.relevant["query"])

    @property
    def ranks_unjudged(self) -> bool:
        """Whether a ranking can contain titles without a judgment for their query."""
        measured = self.judged.filter(pl.col("query").is_in(np.flatnonzero(self.has_relevant)))
        pairs = int(self.has_relevant.sum()) * len(self.titles)
        return self.ranks_corpus and len(measured) < pairs

    def with_judged_titles_only(self) -> RankingTask:
        """The same task, except that each query ranks its judged titles only.

        The indices of queries and titles stay the same, so they fit a condensed run.
        """
        task = copy(self)
        task.ranks_corpus = False
        return task

    @cached_property
    def single_grade_queries(self) -> int:
        """Number of measured queries whose judged titles all have the same grade.

        Any order of these titles is perfect.
        """
        grade = pl.col("grade")
        grade_ranges = self.judged.group_by("query").agg(low=grade.min(), high=grade.max())
        measured = grade_ranges.filter(pl.col("query").is_in(np.flatnonzero(self.has_relevant)))
        return int((measured["low"] == measured["high"]).sum())

    def degenerate_query_warning(self) -> list[str]:
        """A list with one sentence if every ranking of some queries is perfect, else an empty list.

        Without a corpus, this is so if all judged titles of a query have the same grade, such as
        when judgments are made only from clicks.
        """
        if self.ranks_corpus or not self.single_grade_queries:
            return []
        return [
            f"For {self.single_grade_queries:,} of {int(self.has_relevant.sum()):,} queries all "
            "judged titles have the same grade, so any order is perfect. Give a corpus to rank, or "
            "judge irrelevant titles, too."
        ]

    def _as_indices(self, judgments: Sequence[Judgment]) -> pl.DataFrame:
        """Converts the judgments to indices; if a pair has several grades, the highest counts.

        Returns:
            The frame `judged`.
        """
        entries = [*enumerate(zip(self.doc_ids, self.titles, strict=True))]
        indices: dict[Any, int] = {
            key: index
            for index, entry in reversed(entries)
            for key in (entry, (entry[0], None), (None, entry[1]))
        }
        row_of_query = {query_id: index for index, query_id in enumerate(self.query_ids)}
        rows, missing, renamed = [], [], []
        for judgment in judgments:
            doc_id, title = judgment.doc_id, judgment.title
            keys = (doc_id, title), (doc_id, None), (None, title)
            index = next((indices[key] for key in keys if key in indices), None)
            if index is not None:
                rows.append((row_of_query[judgment.query_id], index, judgment.grade))
                if FOLDED.key(self.titles[index]) != FOLDED.key(title):
                    renamed.append((judgment, self.titles[index]))
            elif judgment.grade > 0:
                missing.append(judgment)
        if missing:
            count = len({judgment.doc_id for judgment in missing})
            raise UserError(
                f"{count} relevant titles are not in the corpus, by doc_id or by title, such as "
                f"{missing[0].doc_id!r} ({missing[0].title!r}). Add them, or drop their judgments."
            )
        if 2 * len(renamed) > len(judgments):
            judgment, corpus_title = renamed[0]
            count = len({judgment.doc_id for judgment, _ in renamed})
            raise UserError(
                f"{count} judged doc ids have another title in the corpus: {judgment.doc_id!r} is "
                f"{judgment.title!r} in the judgments and {corpus_title!r} in the corpus. Use the "
                "same ids in both."
            )
        table = pl.DataFrame(
            rows, {"query": pl.Int64, "title": pl.Int64, "grade": pl.Float64}, orient="row"
        )
        return table.group_by("query", "title").max().sort("query", "title")


def _sort_key(entry: tuple[str, str]) -> tuple[tuple[int, str], tuple[int, str]]:
    """Sort key of an `(id, text)`: the `tie_key` of the text, then that of the id."""
    return tie_key(entry[1]), tie_key(entry[0])
