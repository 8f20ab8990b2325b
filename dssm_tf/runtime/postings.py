"""Postings: the titles of each term, a word or a pair of words."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_BLOCK = 2_000  # titles whose vectors are added up at once


class TitleTerms(NamedTuple):
    """The terms of titles, one title's after another's.

    An entry is a term in a title.

    Attributes:
        row_of: the row of each term, in order of first occurrence.
        rows: int32 `(entries,)`, rows of terms, in the order of the texts.
        starts: int64 `(titles + 1,)`, the start of each title's entries, and the end.
    """

    row_of: dict[str, int]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def from_texts(cls, texts: Iterable[Iterable[str]]) -> TitleTerms:
        """Numbers the terms of titles.

        Args:
            texts: the terms of each title; read once, so that they may come from a generator.

        >>> TitleTerms.from_texts([["red", "shoe"], [], ["shoe"]])
        TitleTerms(row_of={'red': 0, 'shoe': 1}, rows=array([0, 1, 1], dtype=int32),
            starts=array([0, 2, 2, 3]))
        """
        row_of: dict[str, int] = {}
        rows, ends = array("i"), array("q", [0])
        for text in texts:
            rows.extend(row_of.setdefault(term, len(row_of)) for term in text)
            ends.append(len(rows))
        return cls(row_of, np.array(rows, np.int32), np.array(ends, np.int64))

    @property
    def titles(self) -> NDArray[np.int32]:
        """int32 `(entries,)`, the title of each entry."""
        return titles_of_entries(self.starts)


def titles_of_entries(starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """The title of each entry, int32 `(entries,)`; see `TitleTerms.starts`."""
    return np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))


class Postings:
    """The titles of each term, by row of the term.

    Args:
        rows: int32 `(entries,)`, rows of terms; each term at most once for each title.
        title_starts: int64 `(titles + 1,)`, see `TitleTerms.starts`.
        terms: the number of terms.

    Attributes:
        title_count: the number of titles.
        starts: int64 `(terms + 1,)`, the start of each term's titles in `titles`, and the end.
        titles: int32 `(entries,)`, the titles of all terms, one term's after another's; ascending
            for each term.
    """

    def __init__(
        self, rows: NDArray[np.int32], title_starts: NDArray[np.int64], terms: int
    ) -> None:
        self.title_count = len(title_starts) - 1
        self.titles = titles_of_entries(title_starts)[np.argsort(rows, kind="stable")]
        self._counts = np.bincount(rows, minlength=terms)
        self.starts = np.append(0, np.cumsum(self._counts))

    def sums(self, weights: Floats) -> NDArray[np.float64]:
        """The sum of the weights of each title's terms, `(titles,)`.

        Args:
            weights: `(terms,)`, by row.
        """
        added = np.repeat(weights.astype(np.float64), self._counts)
        return np.bincount(self.titles, added, self.title_count).astype(np.float64)

    def vector_sums(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The sum of the vectors of each title's terms, `(titles, dimension)`.

        Args:
            vectors: `(terms, dimension)`, by row.
        """
        sums = np.zeros((self.title_count, vectors.shape[1]), np.float32)
        for titles, sums_of_titles in self.blocks_of_sums(vectors):
            sums[titles] = sums_of_titles
        return sums

    def blocks_of_sums(
        self, vectors: NDArray[np.float32]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Yields some titles with terms, and the sums of their vectors, until all were yielded.

        Args:
            vectors: `(terms, dimension)`, by row.
        """
        order = np.argsort(self.titles, kind="stable")
        rows = np.repeat(np.arange(len(self._counts)), self._counts)[order]
        counts = np.bincount(self.titles, minlength=self.title_count)
        titles = np.flatnonzero(counts)  # `reduceat` needs at least one row per title
        starts = np.append(0, np.cumsum(counts))[titles]
        for start in range(0, len(titles), _BLOCK):
            block = titles[start : start + _BLOCK]
            first, end = starts[start], starts[start + len(block) - 1] + counts[block[-1]]
            block_starts = starts[start : start + len(block)] - first
            yield block, np.add.reduceat(vectors[rows[first:end]], block_starts, axis=0)

    def titles_of_terms(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The titles of terms, one term's after another's, and their number for each term."""
        starts, counts = self.starts[rows], self._counts[rows]
        # The position of each posting: the start of its term plus its number within the term.
        offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return self.titles[offsets + np.arange(len(offsets))].astype(np.intp), counts

    def titles_of_term(self, row: int) -> NDArray[np.int32]:
        """The titles with a term."""
        return self.titles[self.starts[row] : self.starts[row + 1]]
