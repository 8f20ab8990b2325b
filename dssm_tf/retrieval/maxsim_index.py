"""A search index for models with the score maxsim: exact scores, without approximate neighbors.

A search has two steps. First, all titles are scored with the most similar words of each word of the
query only: `similar_words`, by default 16. Then the best of these titles, by default 200
(`rescored`), are scored by the full formula. So the scores that a search returns are the model's,
and only a title that the first step ranks far lower than the full formula can be missed. Both steps
include the prior. Titles without any similar word are not found.

The model may have rules by hand, see `dssm_tf.runtime.search_rules`: both steps follow those of
words. Pinned titles come first, with the model's score, and blocked ones are left out.

The model may have remembered clicks, see `dssm_tf.runtime.remembered_clicks`. The titles that were
clicked for the query are scored by the full formula too, and their clicks are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf import runtime
from dssm_tf.common.checksums import check_files, files_in, write_checksums
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.retrieval.clicked_titles import ClickedTitles
from dssm_tf.retrieval.example_queries import examples_of
from dssm_tf.retrieval.hits import (
    NO_WORDS,
    NOTHING_SIMILAR,
    POOR_RESULTS,
    MatchHit,
    SearchResult,
)
from dssm_tf.retrieval.lexical import LexicalRanking
from dssm_tf.retrieval.maxsim_arrays import Progress, compute_arrays
from dssm_tf.retrieval.maxsim_files import (
    REBUILD_HINT,
    Arrays,
    read_arrays,
    read_settings,
    read_table,
    read_words,
    write_files,
)
from dssm_tf.retrieval.maxsim_query import PreparedQuery, QueryPreparer
from dssm_tf.retrieval.rounded_vectors import ROUNDING, RoundedVectors
from dssm_tf.retrieval.title_filters import Filters, TitleFilters
from dssm_tf.retrieval.title_rules import (
    EntriesOfQuery,
    RankedEntries,
    TitleFinder,
    describe_blocked,
    put_pinned_first,
    summarize_rules,
)
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.remembered_clicks import RememberedClicks
from dssm_tf.runtime.similar_words import SIMILAR_WORDS, SimilarWords
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.fields import MAX_OWN_FIELDS, mark_word

RESCORED = 200
"""The number of titles that are scored by the full formula, if not set otherwise."""

TITLES, MODEL = "titles.arrow", "model"

_NO_TITLES = np.zeros(0, np.bool_)
_NO_ROWS = np.zeros(0, np.int32)

Booleans = NDArray[np.bool_]


class Filter(NamedTuple):
    """Entries of the corpus that a search may return; `MaxSimIndex.filter` creates it.

    Attributes:
        entries: `(entries,)`.
        titles: `(titles,)`, whether a title has such an entry.
    """

    entries: Booleans
    titles: Booleans


class RankedTitles(NamedTuple):
    """Distinct titles of an index and their scores, best first.

    Attributes:
        titles: int32, positions in the arrays of the index.
        scores: float32, with the prior.
    """

    titles: NDArray[np.int32]
    scores: NDArray[np.float32]


@dataclass
class MaxSimIndex:
    """The titles of a corpus, their words and pairs, and the model that scores them.

    Several threads may search at once.

    Args:
        model: the trained model.
        table: Arrow table with `doc_id` and `title`, in the order of the corpus.
        words: the distinct words of the titles, by row.
        arrays: the numbers of the index.
        similar_words: the number of similar words of a query word that candidates are found with;
            None for all, which is slow and cannot be saved.
        rescored: the number of candidates that are scored by the full formula.
        clicked: the titles of the model's remembered clicks; None if it remembers none.
    """

    model: MaxSimRanker
    table: Any
    words: list[str]
    arrays: Arrays
    similar_words: int | None = SIMILAR_WORDS
    rescored: int = RESCORED
    clicked: ClickedTitles | None = None

    def __post_init__(self) -> None:
        self._kernels = load_kernels()
        # Plain arrays, all read-only: the functions are compiled for one type of arguments, and
        # Numba recognizes the type of a memory map slowly.
        views = [array.view(np.ndarray) for array in self.arrays]
        for view in views:
            view.setflags(write=False)
        self.arrays = Arrays(*views)
        self._row_of = {word: row for row, word in enumerate(self.words)}
        vectors = self.arrays.vectors
        self._rounded = RoundedVectors(vectors, self._kernels)
        self._similar = SimilarWords(
            self.model.maxsim, self.words, self.similar_words, vectors, self._rounded.near
        )
        self._queries = QueryPreparer(self.model.maxsim, self._row_of, self.arrays, self._similar)
        self._columns = self.table["doc_id"], self.table["title"]
        self._ruled: EntriesOfQuery = {}
        if self.model.search_rules.titles:
            finder = TitleFinder(self.table, self._row_of, self.arrays, self.model.vocabulary)
            self._ruled = finder.entries(self.model.search_rules)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def summary(self) -> str:
        """The kind of search, in words."""
        return (
            f"{self.arrays.titles:,} distinct ones, {len(self.words):,} words; all are compared by "
            f"{self.similar_words} similar words, the best {self.rescored} by the full formula"
            f"{summarize_rules(self.model.search_rules, self._ruled, self.words)}"
        )

    @classmethod
    def build(
        cls,
        model: MaxSimRanker,
        corpus: Sequence[CorpusTitle],
        similar_words: int | None = SIMILAR_WORDS,
        rescored: int = RESCORED,
        progress: Progress = lambda fraction, state: None,
    ) -> MaxSimIndex:
        """Builds an index in memory.

        Args:
            model: the trained model.
            corpus: titles to index. Equal titles tie, in the order of the corpus.
            similar_words: see the class.
            rescored: see the class.
            progress: called with the finished fraction and the current step.

        Raises:
            UserError: no title has a word, a setting is impossible, or Numba is not installed.
        """
        import pyarrow

        load_kernels()
        for name, value in (("similar_words", similar_words), ("rescored", rescored)):
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}; expected at least 1.")
        words, arrays = compute_arrays(model, corpus, similar_words, progress)
        table = pyarrow.table(
            {
                "doc_id": [entry.doc_id for entry in corpus],
                "title": [entry.title for entry in corpus],
            }
        )
        index = cls(model, table, words, arrays, similar_words, rescored)
        return index.with_remembered_clicks(model.remembered)

    def with_remembered_clicks(self, remembered: RememberedClicks | None) -> MaxSimIndex:
        """The same index with other remembered clicks, or without any."""
        if remembered is self.model.remembered is None:
            return self
        clicked = None
        if remembered is not None:
            clicked = ClickedTitles.find(remembered, self.table, self.arrays, self.model.vocabulary)
        model = self.model.with_remembered_clicks(remembered)
        return replace(self, model=model, clicked=clicked)

    def save(self, directory: Path) -> None:
        """Writes the index and checksums into a directory that already contains the model."""
        from pyarrow import feather

        if self.similar_words is None:
            raise ValueError("An index with all similar words cannot be saved.")
        feather.write_feather(self.table, directory / TITLES, compression="uncompressed")
        write_files(directory, self.similar_words, self.rescored, self.words, self.arrays)
        if self.clicked is not None:
            self.clicked.save(directory)
        write_checksums(directory, files_in(directory))

    @classmethod
    def open(cls, directory: Path, mapped: bool = True) -> MaxSimIndex:
        """Checks and memory-maps a directory that `save` wrote, and loads its model.

        Args:
            directory: the index.
            mapped: False to read the files into memory, see `open_index`.

        Raises:
            UserError: a file is damaged or has another format, or Numba is not installed.
        """
        check_files(directory, None, REBUILD_HINT)
        similar_words, rescored = read_settings(directory)
        model = runtime.load(directory / MODEL)
        if not isinstance(model, MaxSimRanker):
            raise UserError(f"{directory / MODEL} has another score than maxsim. {REBUILD_HINT}")
        table = read_table(directory / TITLES, ("doc_id", "title"), mapped)
        words = read_words(directory, mapped)
        arrays = read_arrays(directory, len(words), len(table), model.maxsim.dimension, mapped)
        clicked = None
        if model.remembered is not None:
            clicked = ClickedTitles.read(directory, model.remembered, arrays.titles)
        return cls(model, table, words, arrays, similar_words, rescored, clicked)

    def filter(self, entries: Sequence[bool] | Booleans) -> Filter:
        """A filter for `search`, to be used for any number of queries.

        Args:
            entries: `(entries,)`, whether the search may return each entry of the corpus.

        Raises:
            ValueError: the number of values is not that of the entries.
        """
        allowed = np.asarray(entries, np.bool_)
        if allowed.shape != (len(self),):
            raise ValueError(
                f"The filter has the shape {allowed.shape}; expected a value for each of the "
                f"{len(self)} entries."
            )
        counts = np.append(0, np.cumsum(allowed[self.arrays.docs]))
        starts = self.arrays.doc_starts
        return Filter(allowed, counts[starts[1:]] > counts[starts[:-1]])

    @cached_property
    def filters(self) -> TitleFilters:
        """Filters by id and by the fields of titles."""
        return TitleFilters(self.table, self.model.vocabulary.rules)

    def has_word(self, word: str) -> bool:
        """Whether a title has a word, in any of its fields."""
        return any(mark_word(word, field) in self._row_of for field in range(MAX_OWN_FIELDS + 1))

    def search(
        self,
        query: str,
        k: int = 10,
        allowed: Filter | None = None,
        filters: Filters | None = None,
    ) -> SearchResult:
        """Returns the best `k` entries of the corpus.

        Args:
            query: any text.
            k: number of entries, at least 1.
            allowed: the entries that may be returned; None for all.
            filters: the accepted values of fields instead, see `TitleFilters`; None for all.

        Returns:
            One ranking. Of titles with equal scores, the order is that of `tie_key`; of equal
            titles, that of the corpus. Pinned titles come first, in the order of their rules.

        Raises:
            UserError: a filter is not one of this index.
        """
        query = one_line(query)
        if filters:
            allowed = self.filter(self.filters.mask(filters))
        words = self.model.vocabulary.words(query)
        ruled = self._ruled.get(" ".join(words), {})
        depth = k + len(ruled)
        best = self._entries(self.rank(words, depth, allowed), depth, allowed)
        if ruled and (prepared := self._queries.prepare(words)) is not None:
            best = put_pinned_first(
                best,
                ruled,
                None if allowed is None else allowed.entries,
                self.arrays,
                lambda titles: self._with_clicks(words, titles, self._scores(prepared, titles)),
            )
        entries, scores, titles = best.entries[:k], best.scores[:k], best.titles[:k]
        # Faster than `Table.take`, which copies columns of several chunks.
        doc_ids, texts = ([column[row].as_py() for row in entries] for column in self._columns)
        numbers = scores.tolist(), self.arrays.priors[titles].tolist()
        added = self._added(words, titles)
        hits = [
            MatchHit(*row, query, self.model, ruled.get(entry), clicks)
            for entry, clicks, row in zip(
                entries, added, zip(doc_ids, texts, *numbers, strict=True), strict=True
            )
        ]
        note = ""
        if not words:
            note = NO_WORDS
        elif not hits:
            note = NOTHING_SIMILAR
        elif not self._has_good_hit(words, hits):
            note = POOR_RESULTS
        return SearchResult({"semantic": hits}, note, describe_blocked(ruled, self._columns))

    @cached_property
    def bm25(self) -> Ranker:
        """BM25 as a ranker of any text, for explanations."""
        from dssm_tf.baselines.bm25 import BM25

        return BM25().fit([], self.table["title"].to_pylist())

    @cached_property
    def example_queries(self) -> list[str]:
        """Queries to try, made from titles."""
        return examples_of(self.table)

    @cached_property
    def lexical_ranking(self) -> LexicalRanking:
        """BM25 of the same titles, to compare; its index is built by its first search."""
        return LexicalRanking(self.table)

    def rank(self, words: Sequence[str], k: int, allowed: Filter | None = None) -> RankedTitles:
        """Ranks the distinct titles for a query; see `search`.

        Args:
            words: the words of the query, in order.
            k: the number of titles, at least 1.
            allowed: the entries that may be returned; None for all.
        """
        also = _NO_ROWS if self.clicked is None else self.clicked.titles(words)
        titles, scores = self.candidates(words, k, allowed, also)
        scores = self._with_clicks(words, titles, scores)
        best = np.argsort(-scores, kind="stable")[:k]
        return RankedTitles(titles[best], scores[best])

    def candidates(
        self,
        words: Sequence[str],
        k: int,
        allowed: Filter | None = None,
        also: NDArray[np.int32] = _NO_ROWS,
    ) -> RankedTitles:
        """The distinct titles that a search scores by the full formula, in the order of the arrays.

        Args:
            words: the words of the query, in order.
            k: the minimum number of titles, at least 1.
            allowed: the entries that may be returned; None for all.
            also: further titles.

        Returns:
            The titles with the scores of the model, without remembered clicks.
        """
        if (query := self._queries.prepare(words)) is None:
            return RankedTitles(np.zeros(0, np.int32), np.zeros(0, np.float32))
        arrays, kernels = self.arrays, self._kernels
        titles = kernels.best_titles(
            arrays.word_starts, arrays.word_titles, arrays.pair_starts, arrays.pair_titles,
            arrays.word_weights, arrays.pair_weights, arrays.inverse_totals, arrays.priors,
            _NO_TITLES if allowed is None else allowed.titles,
            query.ends, query.rows, query.similarities,
            query.weights, query.pairs, query.pair_weights,
            min(max(k, self.rescored), arrays.titles),
        )  # fmt: skip
        if allowed is not None:
            also = also[allowed.titles[also]]
        titles = np.union1d(titles, also)  # sorted, so titles of equal scores are in order
        return RankedTitles(titles, self._scores(query, titles))

    def _added(self, words: Sequence[str], titles: NDArray[np.int32]) -> list[float]:
        """What remembered clicks add to the scores of titles."""
        added, query = None, None
        if self.clicked is not None and len(self.clicked.titles(words)):
            query = self._queries.prepare(words)
        if self.clicked is not None and query is not None:
            added = self.clicked.added(words, titles, self._scores(query, titles))
        return [0.0] * len(titles) if added is None else added.tolist()

    def _with_clicks(
        self, words: Sequence[str], titles: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The scores of titles for the words of a query, with what remembered clicks add."""
        if self.clicked is None:
            return scores
        added = self.clicked.added(words, titles, scores)
        return scores if added is None else (scores + added).astype(np.float32)

    def _scores(self, query: PreparedQuery, titles: NDArray[np.int32]) -> NDArray[np.float32]:
        """The scores of some titles by the full formula, with the prior."""
        arrays, rounded = self.arrays, self._rounded
        scores: NDArray[np.float32] = self._kernels.exact_scores(
            arrays.title_starts, arrays.title_words, arrays.title_pair_starts, arrays.title_pairs,
            arrays.vectors, rounded.rounded, rounded.scales, rounded.error, ROUNDING,
            arrays.word_weights, arrays.pair_weights, arrays.inverse_totals, arrays.priors,
            titles, query.vectors, query.weights, query.pairs, query.pair_weights,
            query.set_ends, query.set_rows, query.set_similarities, self.model.maxsim.threshold,
        )  # fmt: skip
        return scores

    def _entries(self, ranked: RankedTitles, k: int, allowed: Filter | None) -> RankedEntries:
        """The first `k` entries of ranked titles."""
        starts = self.arrays.doc_starts
        entries: list[int] = []
        of_title: list[int] = []
        for i, title in enumerate(ranked.titles):
            docs = self.arrays.docs[starts[title] : starts[title + 1]]
            if allowed is not None:
                docs = docs[allowed.entries[docs]]
            entries += docs[: k - len(entries)].tolist()
            of_title += [i] * (len(entries) - len(of_title))
            if len(entries) == k:
                break
        return RankedEntries(entries, ranked.scores[of_title], ranked.titles[of_title])

    def _has_good_hit(self, words: Sequence[str], hits: Iterable[MatchHit]) -> bool:
        """Whether a title is pinned, was clicked, reaches the cut-off, or has all query words."""
        split, query = self.model.vocabulary.words, {*words}
        return any(
            hit.pinned is not None
            or hit.remembered > 0
            or hit.score - hit.prior >= self.model.cutoff
            or query <= {*split(hit.title)}
            for hit in hits
        )


def load_kernels() -> Any:
    """Imports the compiled functions.

    Raises:
        UserError: Numba is not installed.
    """
    try:
        from dssm_tf.retrieval import maxsim_kernels
    except ImportError as error:
        raise UserError(
            f"Numba cannot be imported ({error}); install it with: {install_command('search')}."
        ) from None
    return maxsim_kernels
