"""What every system of an evaluation has to do: which queries rank which titles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.typos import SUFFIX
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import FOLDED

# Queries scored together when each has its own titles: more would score many
# titles for queries that do not ask for them.
_QUERIES_WITH_OWN_TITLES = 32


class RankingTask:
    """Queries, titles in the order of their texts' hashes, and the grades that join them.

    No measurement depends on the order of rows or on ids: queries and titles stand in the order
    of `tie_key`, and where texts are equal, in that of their judgments. Titles that score the
    same are ranked in this order.

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
        judged_columns: for each query, its judged places in `titles`, increasing.
        judged_grades: aligned with `judged_columns`.
        whole_corpus: whether there is a corpus.
        dropped: judgments with grade 0 of titles that the corpus lacks.
        retitled: judgments whose doc id has another title in the corpus.

    Raises:
        UserError: there is no judgment, a relevant title is not in the corpus,
            or no query has a relevant title.
    """

    def __init__(
        self, judgments: Sequence[Judgment], corpus: Sequence[CorpusTitle] | None = None
    ) -> None:
        if not judgments:
            raise UserError("there is no judgment to evaluate with.")
        self.whole_corpus = corpus is not None
        if corpus is None:
            entries = {(judgment.doc_id, judgment.title) for judgment in judgments}
        else:
            entries = {(entry.doc_id, entry.title) for entry in corpus}
        ordered = _ordered(entries, ((one.doc_id, f"{one.grade} {one.query}") for one in judgments))
        self.doc_ids = tuple(doc_id for doc_id, _ in ordered)
        self.titles = tuple(title for _, title in ordered)
        self._columns_of: dict[str, list[int]] = defaultdict(list)
        for column, doc_id in enumerate(self.doc_ids):
            self._columns_of[doc_id].append(column)
        if self.whole_corpus and len(self._columns_of) < len(self.doc_ids):
            twice = next(doc_id for doc_id, columns in self._columns_of.items() if columns[1:])
            raise UserError(f"the corpus gives doc_id {twice!r} to more than one title.")
        self.dropped = self.retitled = 0
        texts, tables_of = self._join(judgments)
        queries = _ordered(
            texts.items(), ((one.query_id, f"{one.grade} {one.title}") for one in judgments)
        )
        self.query_ids = tuple(query_id for query_id, _ in queries)
        self.queries = tuple(query for _, query in queries)
        tables = [tables_of[query_id] for query_id in self.query_ids]
        self.judged_columns = [np.array(sorted(table), dtype=np.int64) for table in tables]
        self.judged_grades = [
            np.array([table[column] for column in sorted(table)], dtype=np.float64)
            for table in tables
        ]
        if not any((grades > 0).any() for grades in self.judged_grades):
            raise UserError(
                "no query has a title with a grade above 0, so no system can be measured."
            )

    @cached_property
    def relevant(self) -> pl.DataFrame:
        """The grades above 0: query and title, as a run has them, and grade, query by query."""
        rows = [
            (query, column, grade)
            for query, (columns, grades) in enumerate(
                zip(self.judged_columns, self.judged_grades, strict=True)
            )
            for column, grade in zip(columns.tolist(), grades.tolist(), strict=True)
            if grade > 0
        ]
        return pl.DataFrame(rows, ["query", "title", "grade"], orient="row")

    def columns_of(self, doc_id: str) -> Sequence[int]:
        """Places of a doc id in `titles`: one in a corpus, none if unknown."""
        return self._columns_of.get(doc_id, ())

    def left_out(self) -> list[int]:
        """Rows of the queries without a relevant title, which no mean counts."""
        return [row for row, grades in enumerate(self.judged_grades) if not (grades > 0).any()]

    def foregone(self) -> list[str]:
        """A sentence about queries whose titles are perfect in any order; none if there are none.

        Such are judgments made of clicks alone, without a corpus.
        """
        kinds = [set(grades.tolist()) for grades in self.judged_grades]
        measured = [kind for kind in kinds if kind != {0}]
        alike = sum(len(kind) == 1 for kind in measured)
        if self.whole_corpus or not alike:
            return []
        return [
            f"For {alike:,} of {len(measured):,} queries all judged titles have the same grade: "
            "any order is perfect. Give a corpus to rank, or judge irrelevant titles, too."
        ]

    @cached_property
    def misspelt(self) -> NDArray[np.bool_]:
        """`(queries,)`, whether a query is another one of the task with a typing error."""
        ids = {one + SUFFIX for one in self.query_ids}
        return np.array([one in ids for one in self.query_ids], bool)

    def part(self, rows: Iterable[int]) -> RankingTask:
        """The same titles, ranked for some of the queries."""
        part, rows = copy(self), list(rows)
        for cached in ("relevant", "misspelt"):
            part.__dict__.pop(cached, None)
        part.query_ids = tuple(self.query_ids[row] for row in rows)
        part.queries = tuple(self.queries[row] for row in rows)
        part.judged_columns = [self.judged_columns[row] for row in rows]
        part.judged_grades = [self.judged_grades[row] for row in rows]
        return part

    def grade(self, query: int, column: int) -> float | None:
        """The grade of a title for a query, None if nobody judged it."""
        columns = self.judged_columns[query]
        place = int(np.searchsorted(columns, column))
        found = place < len(columns) and columns[place] == column
        return float(self.judged_grades[query][place]) if found else None

    def qrels(self) -> list[Judgment]:
        """The judgments as used: doc ids of the corpus, without dropped ones."""
        return [
            Judgment(query_id, query, self.doc_ids[column], self.titles[column], float(grade))
            for query_id, query, columns, grades in zip(
                self.query_ids, self.queries, self.judged_columns, self.judged_grades, strict=True
            )
            for column, grade in zip(columns, grades, strict=True)
        ]

    def blocks(self, cells: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
        """Splits the queries into parts with few enough scores to hold at once.

        Args:
            cells: scores to hold at once, exceeded only by a single query.

        Yields:
            Query rows, and the places of their titles, None for all of them.
        """
        rows = np.arange(len(self.queries))
        if self.whole_corpus:
            size = max(1, cells // len(self.titles))
            for start in range(0, len(rows), size):
                yield rows[start : start + size], None
            return
        for start in range(0, len(rows), _QUERIES_WITH_OWN_TITLES):
            part = rows[start : start + _QUERIES_WITH_OWN_TITLES]
            yield part, np.unique(np.concatenate([self.judged_columns[row] for row in part]))

    def _join(
        self, judgments: Sequence[Judgment]
    ) -> tuple[dict[str, str], dict[str, dict[int, float]]]:
        """By query id: its text, and grades by place; a title judged twice keeps the higher one."""
        place_of_entry = {
            entry: place for place, entry in enumerate(zip(self.doc_ids, self.titles, strict=True))
        }
        place_of_title: dict[str, int] = {}
        for place, title in enumerate(self.titles):
            place_of_title.setdefault(title, place)
        texts: dict[str, str] = {}
        tables: dict[str, dict[int, float]] = {}
        missing: dict[str, str] = {}
        renamed: dict[str, tuple[str, str]] = {}
        for query_id, query, doc_id, title, grade in judgments:
            texts.setdefault(query_id, query)
            table = tables.setdefault(query_id, {})
            found = place_of_entry.get((doc_id, title))
            if found is None and (same_id := self.columns_of(doc_id)):
                found = same_id[0]
                if FOLDED.key(self.titles[found]) != FOLDED.key(title):
                    renamed.setdefault(doc_id, (title, self.titles[found]))
                    self.retitled += 1
            if found is None:
                found = place_of_title.get(title)
            if found is not None:
                table[found] = max(grade, table.get(found, 0.0))
            elif grade > 0:
                missing.setdefault(doc_id, title)
            else:
                self.dropped += 1
        if missing:
            doc_id, title = next(iter(missing.items()))
            raise UserError(
                f"{len(missing)} relevant titles are not in the corpus, by doc_id or by title: "
                f"{doc_id!r} ({title!r}) for one; add them to it, or drop their judgments."
            )
        if 2 * self.retitled > len(judgments):
            doc_id, (judged, held) = next(iter(renamed.items()))
            raise UserError(
                f"{len(renamed)} judged doc ids have another title in the corpus: {doc_id!r} is "
                f"{judged!r} in the judgments and {held!r} in the corpus; use the same ids in both."
            )
        return texts, tables


def _ordered(
    entries: Iterable[tuple[str, str]], judged: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Ids and texts in the order of `tie_key`; equal texts by a hash of what is judged of them.

    Args:
        entries: ids and texts.
        judged: ids and what a judgment says of each, without ids.
    """
    entries = list(entries)
    times = Counter(text for _, text in entries)
    twins = {key for key, text in entries if times[text] > 1}
    said: dict[str, list[str]] = defaultdict(list)
    for key, what in judged:
        if key in twins:
            said[key].append(what)
    judgments = {key: fingerprint64("\n".join(sorted(lines))) for key, lines in said.items()}
    return sorted(entries, key=lambda one: (*tie_key(one[1]), judgments.get(one[0], 0), one[0]))
