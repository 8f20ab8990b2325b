"""What every system of an evaluation has to do: which queries rank which titles."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Queries, titles in the order of their texts' hashes, and the grades that join them.

    No measurement depends on the order of rows: queries and titles stand in the order of
    `tie_key`, and where texts are equal, in that of their ids' hashes. Titles that score the same
    are ranked in this order.

    A judged title is found in the corpus by its doc id, else by its exact
    title. One that is in neither way there could not be ranked: with grade 0
    it changes nothing and is dropped; with a higher grade the evaluation would
    be wrong, so that is an error. So is a corpus that has other titles under
    most of the judged doc ids: it numbers its titles in another way.

    Args:
        judgments: grades.
        corpus: the titles every query ranks; None for each query its judged ones.

    Attributes:
        query_ids: aligned with `queries`.
        queries: their texts, ordered.
        doc_ids: aligned with `titles`.
        titles: ordered; without a corpus, one entry for each doc id and title.
        judged: `query` and `title`, their places, as a run has them, and `grade`; sorted.
        ranks_corpus: whether there is a corpus.

    Raises:
        UserError: there is no judgment, a relevant title is not in the corpus,
            or no query has a relevant title.
    """

    def __init__(
        self, judgments: Sequence[Judgment], corpus: Sequence[CorpusTitle] | None = None
    ) -> None:
        ranked = judgments if corpus is None else corpus
        if not judgments or not ranked:
            raise UserError("there is no judgment, or no title, to evaluate with.")
        self.ranks_corpus = corpus is not None
        entries = {(one.doc_id, one.title) for one in ranked}
        ordered = sorted(entries, key=_order)
        self.doc_ids = tuple(doc_id for doc_id, _ in ordered)
        self.titles = tuple(title for _, title in ordered)
        texts = {one.query_id: one.query for one in reversed(judgments)}
        asked = sorted(texts.items(), key=_order)
        self.query_ids = tuple(query_id for query_id, _ in asked)
        self.queries = tuple(query for _, query in asked)
        self.judged = self._join(judgments)
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
        """`(queries,)`, whether means count a query: whether it has a relevant title."""
        return np.isin(np.arange(len(self.queries)), self.relevant["query"])

    def degenerate_query_warning(self) -> list[str]:
        """A sentence about queries whose titles are perfect in any order; none if there are none.

        Such are judgments made of clicks alone, without a corpus.
        """
        grade = pl.col("grade")
        kinds = self.judged.group_by("query").agg(low=grade.min(), high=grade.max())
        measured = kinds.filter(pl.col("query").is_in(np.flatnonzero(self.has_relevant)))
        alike = int((measured["low"] == measured["high"]).sum())
        if self.ranks_corpus or not alike:
            return []
        return [
            f"For {alike:,} of {len(measured):,} queries all judged titles have the same grade: "
            "any order is perfect. Give a corpus to rank, or judge irrelevant titles, too."
        ]

    def _join(self, judgments: Sequence[Judgment]) -> pl.DataFrame:
        """The judgments by places; a title judged twice for a query keeps the higher grade."""
        entries = [*enumerate(zip(self.doc_ids, self.titles, strict=True))]
        known: dict[Any, int] = {
            key: place
            for place, entry in reversed(entries)
            for key in (entry, (entry[0], None), (None, entry[1]))
        }
        row = {query_id: place for place, query_id in enumerate(self.query_ids)}
        found, missing, retitled = [], [], []
        for one in judgments:
            keys = (one.doc_id, one.title), (one.doc_id, None), (None, one.title)
            place = next((known[key] for key in keys if key in known), None)
            if place is not None:
                found.append((row[one.query_id], place, one.grade))
                if FOLDED.key(self.titles[place]) != FOLDED.key(one.title):
                    retitled.append((one, self.titles[place]))
            elif one.grade > 0:
                missing.append(one)
        if missing:
            raise UserError(
                f"{len({one.doc_id for one in missing})} relevant titles are not in the corpus, "
                f"by doc_id or by title: {missing[0].doc_id!r} ({missing[0].title!r}) for one; "
                "add them, or drop their judgments."
            )
        if 2 * len(retitled) > len(judgments):
            (one, held), names = retitled[0], {one.doc_id for one, _ in retitled}
            raise UserError(
                f"{len(names)} judged doc ids have another title in the corpus: {one.doc_id!r} is "
                f"{one.title!r} in the judgments and {held!r} in the corpus; use the same ids in "
                "both."
            )
        table = pl.DataFrame(
            found, {"query": pl.Int64, "title": pl.Int64, "grade": pl.Float64}, orient="row"
        )
        return table.group_by("query", "title").max().sort("query", "title")


def _order(entry: tuple[str, str]) -> tuple[tuple[int, str], tuple[int, str]]:
    """What ids and texts are sorted by."""
    return tie_key(entry[1]), tie_key(entry[0])
