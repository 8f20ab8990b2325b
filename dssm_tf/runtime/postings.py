"""Postings: the titles of each term."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class Postings:
    """The titles of each term, by row of the term.

    Args:
        texts: the distinct terms of each title; read once, so that they may come from a generator.

    Attributes:
        rows: the row of each term, in order of first occurrence.
        starts: int64 `(terms + 1,)`, the start of each term's titles in `titles`, and the end.
        titles: int32, the titles of all terms, one term's after another's; ascending in a term.
    """

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        self.rows: dict[str, int] = {}
        rows, lengths = array("i"), array("i")
        for text in texts:
            before = len(rows)
            rows.extend(self.rows.setdefault(term, len(self.rows)) for term in text)
            lengths.append(len(rows) - before)
        self._title_count = len(lengths)
        titles = np.repeat(np.arange(len(lengths), dtype=np.int32), np.frombuffer(lengths, np.intc))
        row_of_posting = np.frombuffer(rows, np.intc)
        self.titles = titles[np.argsort(row_of_posting, kind="stable")]
        self._counts = np.bincount(row_of_posting, minlength=len(self.rows))
        self.starts = np.append(0, np.cumsum(self._counts))

    def sums(self, weights: Floats) -> NDArray[np.float64]:
        """The sum of the weights of each title's terms, `(titles,)`.

        Args:
            weights: `(terms,)`, by row.
        """
        added = np.repeat(weights.astype(np.float64), self._counts)
        return np.bincount(self.titles, added, self._title_count).astype(np.float64)

    def titles_of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The titles of terms, one term's after another's, and their number for each term."""
        starts, counts = self.starts[rows], self._counts[rows]
        # The position of each posting: the start of its term plus its number within the term.
        offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return self.titles[offsets + np.arange(len(offsets))].astype(np.intp), counts

    def titles_with(self, term: str) -> NDArray[np.int32]:
        """The titles with a term; none if the term is in no title."""
        row = self.rows.get(term)
        if row is None:
            return self.titles[:0]
        return self.titles[self.starts[row] : self.starts[row + 1]]

    def by_title(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The reverse: the rows of each title's terms.

        Returns:
            The start of each title's rows and the end, int64 `(titles + 1,)`; the rows, int32,
            ascending in a title.
        """
        rows = np.repeat(np.arange(len(self.rows), dtype=np.int32), self._counts)
        lengths = np.bincount(self.titles, minlength=self._title_count)
        return np.append(0, np.cumsum(lengths)), rows[np.argsort(self.titles, kind="stable")]
