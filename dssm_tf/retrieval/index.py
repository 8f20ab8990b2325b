"""The titles with the highest inner product: all of them compared, in NumPy or with faiss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssm_tf.common.errors import UserError, install

if TYPE_CHECKING:
    from types import ModuleType

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

SPARE = 32
"""Candidates beyond k, so that titles that tie at the cut are seen."""

_BLOCK = 1 << 15  # titles scored at once: 12 MiB of vectors of length 96
_QUERIES = 64  # queries scored at once: 8 MiB of scores a block
_ROUNDING = float(np.finfo(np.float32).eps)


class VectorIndex(Protocol):
    """Finds the titles with the highest inner product."""

    def search(self, queries: ArrayLike, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        """Finds the best titles of each query.

        Args:
            queries: `(queries, dimension)`.
            k: how many titles at most, at least 1.
            rows: the only titles to find, increasing; all if None.

        Returns:
            Scores float32 and rows int64, both `(queries, min(k, titles))`, best first, equal
            scores by row. An approximate index that finds fewer ends with score -inf and row -1.
        """
        ...


class ExactIndex:
    """Scores every title, a block at a time, so a million titles need no extra memory.

    Differs from a plain matrix product by its ties: a product's last bits
    depend on where a row lies and how many queries there are, so equal vectors
    can differ by a rounding. Here the product only picks the titles that can
    be among the best, with the largest possible rounding as margin; their
    scores are then summed in double precision, and equal titles score equal.

    Args:
        vectors: of the titles, finite, `(titles, dimension)`; a memory-mapped file will do.
    """

    def __init__(self, vectors: ArrayLike) -> None:
        self._titles = TitleVectors(vectors)

    def search(self, queries: ArrayLike, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        """Finds the best titles of each query; see `VectorIndex`."""
        titles = self._titles
        asked, k = titles.check(queries, k, rows)
        scores, found = titles.nothing(asked, k)
        for start in range(0, len(asked), _QUERIES):
            part = slice(start, start + _QUERIES)
            self._search(asked[part], scores[part], found[part], rows)
        return scores, found

    def _search(self, queries: Vectors, scores: Vectors, found: Rows, rows: Rows | None) -> None:
        """Fills `scores` and `found`, `(queries, k)`, block after block."""
        titles, k = self._titles, scores.shape[1]
        dimension = titles.vectors.shape[1]
        margins = np.linalg.norm(queries, axis=1) * (
            _ROUNDING * (dimension + 4) * titles.longest * 2
        )
        for first in range(0, titles.count if rows is None else len(rows), _BLOCK):
            block = slice(first, first + _BLOCK)
            vectors = titles.vectors[block] if rows is None else titles.vectors[rows[block]]
            rough = queries @ np.asarray(vectors, np.float32).T
            for query, row in enumerate(rough):
                least = scores[query, -1]  # -inf until k titles are found
                if len(row) > k:
                    least = max(least, np.partition(row, len(row) - k)[len(row) - k])
                places = first + np.flatnonzero(row >= least - margins[query])
                if places.size:
                    candidates = places if rows is None else rows[places]
                    scores[query], found[query] = best(
                        np.concatenate([scores[query], titles.score(queries[query], candidates)]),
                        np.concatenate([found[query], candidates]),
                        k,
                    )


class RescoringIndex(ABC):
    """Lets faiss choose candidates and scores these as `ExactIndex` does.

    Args:
        vectors: of the titles, finite, `(titles, dimension)`; a memory-mapped file will do.

    Raises:
        UserError: faiss is not installed.
    """

    def __init__(self, vectors: ArrayLike) -> None:
        self._faiss = load_faiss()
        self._titles = TitleVectors(vectors)
        self._exact = ExactIndex(vectors)

    def search(self, queries: ArrayLike, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        """Finds good titles of each query; see `VectorIndex`. Given rows are searched exactly."""
        if rows is not None:
            return self._exact.search(queries, k, rows)
        asked, k = self._titles.check(queries, k)
        if not len(asked):
            return self._titles.nothing(asked, k)
        return self._titles.rescore(asked, self._candidates(asked, k), k)

    @abstractmethod
    def _candidates(self, queries: Vectors, k: int) -> Rows:
        """Rows among which the best `k` titles of each query may be, -1 where there are fewer."""


class FlatIndex(RescoringIndex):
    """What `ExactIndex` finds, compared by faiss, as long as at most 32 titles tie at the cut."""

    def _candidates(self, queries: Vectors, k: int) -> Rows:
        found: Rows = self._faiss.knn(
            queries,
            np.ascontiguousarray(self._titles.vectors, np.float32),
            min(k + SPARE, self._titles.count),
            metric=self._faiss.METRIC_INNER_PRODUCT,
        )[1]
        return found


class TitleVectors:
    """The vectors that an index searches.

    Args:
        vectors: `(titles, dimension)`.

    Raises:
        ValueError: they are no such matrix.
    """

    def __init__(self, vectors: ArrayLike) -> None:
        self.vectors: NDArray[Any] = np.asanyarray(vectors)
        if self.vectors.ndim != 2 or not len(self.vectors):
            raise ValueError(
                f"vectors have the shape {self.vectors.shape}; expected (titles, dimension) with "
                "at least one title."
            )
        self.count = len(self.vectors)

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        blocks = (self.vectors[i : i + _BLOCK] for i in range(0, self.count, _BLOCK))
        return float(np.sqrt(max(np.einsum("nd,nd->n", one, one).max() for one in blocks)))

    def check(self, queries: ArrayLike, k: int, rows: Rows | None = None) -> tuple[Vectors, int]:
        """The queries as float32, and `k` cut to the number of titles."""
        asked = np.ascontiguousarray(queries, np.float32)
        if asked.ndim != 2 or asked.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"queries have the shape {asked.shape}; expected "
                f"(queries, {self.vectors.shape[1]})."
            )
        if not np.isfinite(asked).all():
            raise ValueError("A query vector is not finite.")
        if k < 1:
            raise ValueError(f"k is {k}; expected at least 1.")
        return asked, min(k, self.count if rows is None else len(rows))

    def nothing(self, queries: Vectors, k: int) -> tuple[Vectors, Rows]:
        """Scores and rows of queries for which no title is found yet."""
        shape = (len(queries), k)
        return np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int64)

    def rescore(self, queries: Vectors, candidates: Rows, k: int) -> tuple[Vectors, Rows]:
        """The best of some titles of each query, by their scores in double precision.

        Args:
            queries: `(queries, dimension)`.
            candidates: rows, `(queries, candidates)`; -1 is none.
            k: how many titles at most.
        """
        scores, rows = self.nothing(queries, k)
        for query, found in enumerate(candidates):
            found = found[found >= 0].astype(np.int64)
            own, place = best(self.score(queries[query], found), found, k)
            scores[query, : len(own)], rows[query, : len(place)] = own, place
        return scores, rows

    def score(self, query: Vectors, rows: Rows) -> Vectors:
        """Scores of some titles, each the same whatever the others are: float32 `(rows,)`."""
        # Products of float32 are exact in float64, and each row is summed by itself.
        products = self.vectors[rows].astype(np.float64) * query.astype(np.float64)
        scores: Vectors = products.sum(axis=1).astype(np.float32)
        return scores


def best(scores: Vectors, rows: Rows, k: int) -> tuple[Vectors, Rows]:
    """The `k` best, equal scores by row."""
    order = np.lexsort((rows, -scores))[:k]
    return scores[order], rows[order]


def load_faiss() -> ModuleType:
    """The library.

    Raises:
        UserError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"faiss cannot be imported ({error}); install it with: {install('search')}. "
            "The exact index needs nothing more."
        ) from None
    module: ModuleType = faiss
    return module
