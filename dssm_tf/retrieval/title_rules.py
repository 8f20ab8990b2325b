"""Finds the titles that rules by hand pin or block, and applies these rules to a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.retrieval.ranked_entries import RankedEntries
from dssm_tf.runtime.search_rules import SearchRules, TitleRule
from dssm_tf.tables.cells import one_line
from dssm_tf.text.fields import split_mark
from dssm_tf.text.vocabulary import Vocabulary

EntriesOfQuery = Mapping[str, Mapping[int, TitleRule]]
"""By the words of a query, joined by spaces: the entries that a rule pins or blocks."""


class TitleFinder:
    """Finds entries of an index by their id, or by their text.

    Args:
        table: Arrow table with `doc_id` and `title`.
        row_of: the row of each word of the titles.
        arrays: the arrays of the index.
        vocabulary: the vocabulary of the model.
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

        If one rule of a query names an entry by its id and another by its text, the earlier one
        counts.
        """
        by_id = self._with_ids({rule.title for rule in rules.titles})
        entries: dict[str, dict[int, TitleRule]] = {}
        for rule in rules.titles:
            for entry in by_id.get(rule.title) or self._with_text(rule.title):
                entries.setdefault(rule.query, {}).setdefault(entry, rule)
        return entries

    def _with_ids(self, ids: set[str]) -> Mapping[str, list[int]]:
        """The entries that have one of these ids, by id."""
        import pyarrow
        from pyarrow import compute

        column = self._table["doc_id"]
        has_id = compute.is_in(column, value_set=pyarrow.array(sorted(ids), pyarrow.string()))
        entries: dict[str, list[int]] = {}
        for entry in np.flatnonzero(has_id.to_numpy()).tolist():
            entries.setdefault(column[entry].as_py(), []).append(entry)
        return entries

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


def put_pinned_first(
    best: RankedEntries,
    ruled: Mapping[int, TitleRule],
    allowed: NDArray[np.bool_] | None,
    arrays: Arrays,
    score: Callable[[NDArray[np.int32]], NDArray[np.float32]],
) -> RankedEntries:
    """Puts the pinned entries of a query first, and leaves blocked ones out.

    Args:
        best: the best entries by score.
        ruled: the entries that have a rule, in the order of the rules.
        allowed: `(entries,)`, whether the search may return each entry; None for all.
        arrays: the arrays of the index.
        score: computes the scores of distinct titles, `(titles,)`, for the query.
    """
    pinned = [
        entry
        for entry, rule in ruled.items()
        if rule.pinned and (allowed is None or allowed[entry])
    ]
    titles = _titles_of_entries(arrays, pinned)
    others = [i for i, entry in enumerate(best.entries) if entry not in ruled]
    return RankedEntries(
        pinned + [best.entries[i] for i in others],
        np.append(score(titles), best.scores[others]),
        np.append(titles, best.titles[others]),
    )


def describe_blocked(ruled: Mapping[int, TitleRule], columns: Sequence[Any]) -> list[str]:
    """Writes a sentence about each blocked entry of a query.

    Args:
        ruled: the entries that have a rule.
        columns: Arrow columns, the ids and the titles of the corpus.
    """
    return [
        f"Blocked by line {rule.line} of the rules: "
        f"{' '.join(one_line(column[entry].as_py()) for column in columns)}."
        for entry, rule in ruled.items()
        if not rule.pinned
    ]


def summarize_rules(
    rules: SearchRules, ruled_by_query: EntriesOfQuery, words: Sequence[str]
) -> str:
    """Describes the number of rules by hand, and the lines of those without any effect.

    Args:
        rules: the rules of the model.
        ruled_by_query: the entries that a rule pins or blocks.
        words: the words of the titles.

    Returns:
        The end of a sentence; empty if the model has no rules.
    """
    if not rules:
        return ""
    used = {rule.line for entries in ruled_by_query.values() for rule in entries.values()}
    unmarked = {split_mark(word)[1] for word in words}
    used |= {rule.line for rule in rules.words if not unmarked.isdisjoint(rule.words)}
    lines_of_rules = {rule.line for rule in rules.words} | {rule.line for rule in rules.titles}
    unused = sorted(lines_of_rules - used)
    lines = ", ".join(map(str, unused[:10])) + (", ..." if len(unused) > 10 else "")
    return f"; {len(rules)} rules" + (
        f", of which {len(unused)} name no word or title of the corpus (line {lines})"
        if unused
        else ""
    )


def _titles_of_entries(arrays: Arrays, entries: Sequence[int]) -> NDArray[np.int32]:
    """The distinct title of each entry."""
    offsets = [np.flatnonzero(arrays.docs == entry)[0] for entry in entries]
    return (np.searchsorted(arrays.doc_starts, offsets, "right") - 1).astype(np.int32)
