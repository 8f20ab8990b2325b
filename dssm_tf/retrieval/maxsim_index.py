"""A search index for models with the score maxsim: the scores are those of the model.

`dssm_tf.retrieval.maxsim_ranking` ranks the distinct titles in two steps, and adds remembered
clicks if the model has them.

The model may have rules by hand, see `dssm_tf.runtime.search_rules`. Rules about words change the
scores. Pinned titles come first, with the model's score, and blocked ones are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf import runtime
from dssm_tf.common.checksums import check_files, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.retrieval.clicked_titles import ClickedTitles
from dssm_tf.retrieval.content_checks import content_problem
from dssm_tf.retrieval.corrector import Corrector, marked_words
from dssm_tf.retrieval.example_queries import examples_from_table
from dssm_tf.retrieval.hits import (
    NO_GOOD_MATCH_NOTE,
    NO_QUERY_WORD_NOTE,
    NO_SIMILAR_WORD_NOTE,
    MatchHit,
    SearchResult,
)
from dssm_tf.retrieval.index_arrays import Arrays, read_only
from dssm_tf.retrieval.lexical import LexicalRanking
from dssm_tf.retrieval.load_kernels import load_kernels
from dssm_tf.retrieval.maxsim_arrays import Progress, compute_arrays
from dssm_tf.retrieval.maxsim_files import (
    REBUILD_HINT,
    read_arrays,
    read_settings,
    read_table,
    read_words,
    write_files,
)
from dssm_tf.retrieval.maxsim_ranking import (
    RESCORED,
    Booleans,
    Filter,
    MaxSimRanking,
)
from dssm_tf.retrieval.ranked_entries import (
    RankedEntries,
    best_entries,
    boosted_entries,
    largest_of_titles,
)
from dssm_tf.retrieval.saving import save_with_model
from dssm_tf.retrieval.title_columns import TitleBoosts
from dssm_tf.retrieval.title_filters import Filters, TitleFilters
from dssm_tf.retrieval.title_rules import (
    EntriesOfQuery,
    TitleFinder,
    describe_blocked,
    put_pinned_first,
    summarize_rules,
)
from dssm_tf.runtime.boosts import Boosts
from dssm_tf.runtime.corrections import corrected_query
from dssm_tf.runtime.good_match import FIRST_TITLES, is_good_match
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.remembered_clicks import RememberedClicks
from dssm_tf.runtime.search_rules import SearchRules
from dssm_tf.runtime.similar_words import SIMILAR_WORDS
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.judgments import CorpusTitle

TITLES, MODEL = "titles.arrow", "model"


@dataclass
class MaxSimIndex:
    """The titles of a corpus, their words and pairs, and the model that scores them.

    Several threads may search at once.

    Args:
        model: the trained model.
        title_table: Arrow table with `doc_id` and `title`, in the order of the corpus.
        words: the distinct words of the titles, by row.
        arrays: the numbers of the index.
        similar_words: the number of similar words of a query word that candidates are found with;
            None for all, which is slow and cannot be saved.
        rescored: the number of candidates that are scored by the full formula.
        clicked: the titles of the model's remembered clicks; None if it remembers none.
    """

    model: MaxSimRanker
    title_table: Any
    words: list[str]
    arrays: Arrays
    similar_words: int | None = SIMILAR_WORDS
    rescored: int = RESCORED
    clicked: ClickedTitles | None = None

    def __post_init__(self) -> None:
        self.arrays = read_only(self.arrays)
        self._row_of = {word: row for row, word in enumerate(self.words)}
        self.ranking = MaxSimRanking(
            self.model.maxsim, self._row_of, self.arrays, self.similar_words, self.rescored,
            self.clicked,
        )  # fmt: skip
        self.corrector = Corrector(self.model.maxsim, self.words, self._row_of, self.ranking)
        self._columns = self.title_table["doc_id"], self.title_table["title"]
        self._ruled: EntriesOfQuery = {}
        if self.model.search_rules.titles:
            finder = TitleFinder(self.title_table, self._row_of, self.arrays, self.model.vocabulary)
            self._ruled = finder.entries(self.model.search_rules)

    def with_rules(self, rules: SearchRules) -> MaxSimIndex:
        """The same index with other rules by hand, which replace its own."""
        return replace(self, model=self.model.with_rules(rules))

    def __len__(self) -> int:
        return len(self.title_table)

    @property
    def summary(self) -> str:
        """The kind of search, in words."""
        return (
            f"{self.arrays.titles:,} distinct ones, {len(self.words):,} words; a search finds "
            f"titles by {self.similar_words} similar words of each query word, and scores the best "
            f"{self.rescored} by the full formula"
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

        load_kernels()  # if Numba is missing, the error precedes the work
        for name, value in (("similar_words", similar_words), ("rescored", rescored)):
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}; expected at least 1.")
        words, arrays = compute_arrays(model, corpus, similar_words, progress)
        title_table = pyarrow.table(
            {
                "doc_id": [entry.doc_id for entry in corpus],
                "title": [entry.title for entry in corpus],
            }
        )
        index = cls(model, title_table, words, arrays, similar_words, rescored)
        return index.with_remembered_clicks(model.remembered_clicks)

    def with_remembered_clicks(self, remembered_clicks: RememberedClicks | None) -> MaxSimIndex:
        """The same index with other remembered clicks, or without any."""
        if remembered_clicks is self.model.remembered_clicks is None:
            return self
        clicked = None
        if remembered_clicks is not None:
            clicked = ClickedTitles.find(
                remembered_clicks, self.title_table, self.arrays, self.model.vocabulary
            )
        model = self.model.with_remembered_clicks(remembered_clicks)
        return replace(self, model=model, clicked=clicked)

    def save(self, directory: AnyPath, model: AnyPath) -> None:
        """Writes the index and its model into a new directory; see `save_with_model`."""
        save_with_model(directory, model, self.model, self.write)

    def write(self, directory: Path) -> None:
        """Writes the index and checksums into a directory that already contains the model."""
        from pyarrow import feather

        if self.similar_words is None:
            raise ValueError("An index with all similar words cannot be saved.")
        feather.write_feather(self.title_table, directory / TITLES, compression="uncompressed")
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
        with ThreadPoolExecutor(1) as pool:  # while checksums are computed, Python's lock is free
            checksums = pool.submit(check_files, directory, None, REBUILD_HINT)
            try:
                index = cls._read(directory, mapped)
            except Exception:
                checksums.result()  # if a file is damaged, that is the error
                raise
            checksums.result()
        return index

    @classmethod
    def _read(cls, directory: Path, mapped: bool) -> MaxSimIndex:
        """Reads and checks the files of an index, apart from their checksums; see `open`."""
        similar_words, rescored = read_settings(directory)
        model = runtime.load(directory / MODEL)
        if not isinstance(model, MaxSimRanker):
            raise UserError(f"{directory / MODEL} has another score than maxsim. {REBUILD_HINT}")
        title_table = read_table(directory / TITLES, ("doc_id", "title"), mapped, has_more=True)
        words = read_words(directory, mapped)
        maxsim = model.maxsim
        arrays = read_arrays(
            directory, len(words), len(title_table), maxsim.dimension, maxsim.text_dimension, mapped
        )
        clicked = None
        if model.remembered_clicks is not None:
            clicked = ClickedTitles.read(directory, model.remembered_clicks, arrays.titles)
        if problem := content_problem(model, title_table["title"], words, arrays, clicked):
            name, message = problem
            raise UserError(f"{directory}: {name}: {message}. {REBUILD_HINT}")
        return cls(model, title_table, words, arrays, similar_words, rescored, clicked)

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
        return TitleFilters(self.title_table, self.model.vocabulary.rules)

    def has_word(self, word: str) -> bool:
        """Whether a title has a word, in any of its fields."""
        fields = self.model.vocabulary.rules.own_fields
        return any(marked in self._row_of for marked in marked_words(word, fields))

    @cached_property
    def boosts(self) -> TitleBoosts:
        """Boosts by the stored columns."""
        return TitleBoosts(self.title_table)

    def search(
        self,
        query: str,
        k: int = 10,
        allowed: Filter | None = None,
        filters: Filters | None = None,
        boosts: Boosts | None = None,
    ) -> SearchResult:
        """Returns the best `k` entries of the corpus.

        Args:
            query: any text.
            k: number of entries, at least 1.
            allowed: the entries that may be returned; None for all.
            filters: the accepted values of fields instead, see `title_filters`; None for all.
            boosts: weights of stored columns that are added to scores, see `runtime.boosts`.

        Returns:
            One ranking. Of titles with equal scores, the order is that of `tie_key`; of equal
            titles, that of the corpus. Pinned titles come first, in the order of their rules.

        Raises:
            UserError: a filter or a boost is not one of this index.
        """
        query = one_line(query)
        if filters:
            allowed = self.filter(self.filters.mask(filters))
        words = self.model.vocabulary.words(query)
        ruled = self._ruled.get(" ".join(words), {})
        depth = max(k, FIRST_TITLES) + len(ruled)
        if boosts:
            added = self.boosts.added(boosts)
            bonus = largest_of_titles(added, self.arrays, allowed)
            ranked = self.ranking.rank(words, depth, allowed, bonus)
            best = boosted_entries(ranked, depth, allowed, self.arrays, added)
        else:
            ranked = self.ranking.rank(words, depth, allowed)
            best = best_entries(ranked, depth, allowed, self.arrays)
        if ruled and words:
            best = put_pinned_first(
                best,
                ruled,
                None if allowed is None else allowed.entries,
                self.arrays,
                lambda titles: self.ranking.scores(words, titles),
            )
        hits = self._hits(query, words, best, k, boosts or {})
        note = ""
        if not words:
            note = NO_QUERY_WORD_NOTE
        elif not hits:
            note = NO_SIMILAR_WORD_NOTE
        elif not self._has_good_match(words, best):
            note = NO_GOOD_MATCH_NOTE
        corrections = self.corrector.corrections(words)
        return SearchResult(
            {"semantic": hits}, note, describe_blocked(ruled, self._columns), corrections,
            corrected_query(query, corrections, self.model.vocabulary.words),
        )  # fmt: skip

    def _hits(
        self, query: str, words: Sequence[str], best: RankedEntries, k: int, boosts: Boosts
    ) -> list[MatchHit]:
        """The first `k` entries as hits."""
        entries, titles = best.entries[:k], best.titles[:k]
        ruled = self._ruled.get(" ".join(words), {})
        # Faster than `Table.take`, which copies columns of several chunks.
        doc_ids, texts = ([column[row].as_py() for row in entries] for column in self._columns)
        numbers = best.scores[:k].tolist(), self.arrays.priors[titles].tolist()
        parts_of_clicks = self.ranking.parts_of_clicks(words, titles)
        hits = [
            MatchHit(*row, query, self.model, ruled.get(entry), clicks)
            for entry, clicks, row in zip(
                entries, parts_of_clicks, zip(doc_ids, texts, *numbers, strict=True), strict=True
            )
        ]
        if not boosts:
            return hits
        return [
            hit.boosted(self.boosts.of_entry(boosts, entry))
            for hit, entry in zip(hits, entries, strict=True)
        ]

    @cached_property
    def bm25(self) -> Ranker:
        """BM25 as a ranker of any text, for explanations."""
        from dssm_tf.baselines.bm25 import BM25

        return BM25().fit([], self.title_table["title"].to_pylist())

    @cached_property
    def example_queries(self) -> list[str]:
        """Queries to try, made from titles."""
        return examples_from_table(self.title_table)

    @cached_property
    def lexical_ranking(self) -> LexicalRanking:
        """BM25 of the same titles, to compare; its index is built by its first search."""
        return LexicalRanking(self.title_table)

    def _has_good_match(self, words: Sequence[str], best: RankedEntries) -> bool:
        """Whether one of the first entries is a good match, see `runtime.good_match`."""
        titles, entries = best.titles[:FIRST_TITLES], best.entries[:FIRST_TITLES]
        similarities = (best.scores[:FIRST_TITLES] - self.arrays.priors[titles]).tolist()
        cutoff, split, texts = self.model.cutoff, self.model.vocabulary.words, self._columns[1]
        if max(similarities) >= cutoff:
            return True
        ruled = self._ruled.get(" ".join(words), {})
        if any(entry in ruled for entry in entries):
            return True
        if any(self.ranking.parts_of_clicks(words, titles)):
            return True
        return any(
            is_good_match(cutoff, similarity, words, split(texts[entry].as_py()))
            for similarity, entry in zip(similarities, entries, strict=True)
        )
