"""Finds the titles that rules by hand pin or block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.maxsim_files import Arrays
from dssm_tf.runtime.search_rules import SearchRules, TitleRule
from dssm_tf.text.vocabulary import Vocabulary

EntriesOfQuery = Mapping[str, Mapping[int, TitleRule]]
"""For the words of a query, joined by spaces, the entries that a rule pins or blocks."""


class TitleFinder:
    """Finds entries of an index by their id, or by their text.

    Args:
        table: Arrow table with `doc_id` and `title`.
        row_of: the row of each word of the titles.
        arrays: the numbers of the index.
        vocabulary: of the model.
    """

    def __init__(
        self, table: Any, row_of: Mapping[str, int], arrays: Arrays, vocabulary: Vocabulary
    ) -> None:
        self._table = table
        self._row_of = row_of
        self._arrays = arrays
        self._vocabulary = vocabulary

    def entries(self, rules: SearchRules) -> EntriesOfQuery:
        """The entries of pinned and blocked titles, in the order of the rules.

        If two rules of a query are about one entry, one by its id and one by its text, the earlier
        one counts.
        """
        by_id = self._with_ids({rule.title for rule in rules.titles})
        found: dict[str, dict[int, TitleRule]] = {}
        for rule in rules.titles:
            for entry in by_id.get(rule.title) or self._with_text(rule.title):
                found.setdefault(rule.query, {}).setdefault(entry, rule)
        return found

    def _with_ids(self, ids: set[str]) -> Mapping[str, list[int]]:
        """The entries with some ids, by id."""
        import pyarrow
        from pyarrow import compute

        column = self._table["doc_id"]
        is_there = compute.is_in(column, value_set=pyarrow.array(sorted(ids), pyarrow.string()))
        found: dict[str, list[int]] = {}
        for entry in np.flatnonzero(is_there.to_numpy()).tolist():
            found.setdefault(column[entry].as_py(), []).append(entry)
        return found

    def _with_text(self, text: str) -> Sequence[int]:
        """The entries whose titles have the same normalized text."""
        arrays, key = self._arrays, self._vocabulary.rules.key
        rows = [self._row_of.get(word) for word in {*self._vocabulary.words(text)}]
        known = [row for row in rows if row is not None]
        if not known or len(known) < len(rows):
            return []
        postings = [
            arrays.word_titles[arrays.word_starts[row] : arrays.word_starts[row + 1]]
            for row in known
        ]
        for title in min(postings, key=len):
            start, end = arrays.doc_starts[title], arrays.doc_starts[title + 1]
            entries: list[int] = arrays.docs[start:end].tolist()
            words = arrays.title_starts[title + 1] - arrays.title_starts[title]
            if words == len(known) and key(self._title(entries[0])) == key(text):
                return entries
        return []

    def _title(self, entry: int) -> str:
        return str(self._table["title"][entry].as_py())


def titles_of_entries(arrays: Arrays, entries: Sequence[int]) -> NDArray[np.int32]:
    """The distinct title of each entry."""
    places = [np.flatnonzero(arrays.docs == entry)[0] for entry in entries]
    return (np.searchsorted(arrays.doc_starts, places, "right") - 1).astype(np.int32)
