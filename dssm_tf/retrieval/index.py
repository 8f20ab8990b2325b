"""The nearest titles of a query vector: exactly in NumPy, or with faiss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssm_tf.common.errors import UserError, install
from dssm_tf.model.prior import with_column

if TYPE_CHECKING:
    from types import ModuleType

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

_BLOCK = 1 << 15  # titles scored at once: 12 MiB of vectors of length 96
_QUERIES = 64  # queries scored at once: 8 MiB of scores a block
_SPARE = 32  # candidates beyond k, so that titles that tie at the cut are seen
_ROUNDING = float(np.finfo(np.float32).eps)


class VectorIndex(Protocol):
    """Finds the titles with the highest `query . title + bias`.

    The bias is what a title scores whatever the query, such as its weighted
    log-prior.
    """

    def search(self, queries: ArrayLike, k: int) -> tuple[Vectors, Rows]:
        """Finds the best titles of each query.

        Args:
            queries: `(queries, dimension)`.
            k: how many titles at most, at least 1.

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
        vectors: of the titles, `(titles, dimension)`; a memory-mapped file will do.
        bias: `(titles,)`, 0 by default.
    """

    def __init__(self, vectors: ArrayLike, bias: ArrayLike | None = None) -> None:
        self._titles = _Titles(vectors, bias)

    def search(self, queries: ArrayLike, k: int) -> tuple[Vectors, Rows]:
        """Finds the best titles of each query; see `VectorIndex`."""
        asked, k = self._titles.check(queries, k)
        scores = np.full((len(asked), k), -np.inf, np.float32)
        rows = np.full((len(asked), k), -1, np.int64)
        for start in range(0, len(asked), _QUERIES):
            part = slice(start, start + _QUERIES)
            self._search(asked[part], scores[part], rows[part])
        return scores, rows

    def _search(self, queries: Vectors, scores: Vectors, rows: Rows) -> None:
        """Fills `scores` and `rows`, `(queries, k)`, block after block."""
        titles, k = self._titles, scores.shape[1]
        lengths = np.linalg.norm(queries, axis=1)
        for first in range(0, titles.count, _BLOCK):
            vectors = np.asarray(titles.vectors[first : first + _BLOCK], np.float32)
            bias = titles.bias[first : first + _BLOCK]
            rough = queries @ vectors.T + bias
            longest = np.sqrt(np.einsum("nd,nd->n", vectors, vectors).max())
            margins = _ROUNDING * (
                (vectors.shape[1] + 4) * lengths * longest + 4 * np.abs(bias).max()
            )
            for query, row in enumerate(rough):
                least = scores[query, -1]  # -inf until k titles are found
                if len(row) > k:
                    least = max(least, np.partition(row, len(row) - k)[len(row) - k])
                candidates = np.flatnonzero(row >= least - 2 * margins[query])
                if candidates.size:
                    found = first + candidates
                    best, place = _best(
                        np.concatenate([scores[query], titles.score(queries[query], found)]),
                        np.concatenate([rows[query], found]),
                        k,
                    )
                    scores[query], rows[query] = best, place


class FaissIndex:
    """Lets faiss find the titles; their scores are then computed as `ExactIndex` does.

    The bias is one more dimension, `[title, bias] . [query, 1]`, so it counts
    exactly and while searching, not afterwards.

    Args:
        vectors: of the titles, `(titles, dimension)`.
        bias: `(titles,)`, 0 by default.
        kind: `"flat"` compares all titles and finds what `ExactIndex` finds, as long as at most
            32 titles beyond `k` tie at the cut; `"hnsw"` walks a graph: for millions of titles,
            slow to build, fast to ask, and sometimes misses a title.

    Raises:
        UserError: faiss is not installed.

    Reference: Malkov and Yashunin 2020 for HNSW.
    """

    def __init__(
        self,
        vectors: ArrayLike,
        bias: ArrayLike | None = None,
        kind: Literal["flat", "hnsw"] = "flat",
    ) -> None:
        faiss = _faiss()
        self._titles = titles = _Titles(vectors, bias)
        dimension = titles.vectors.shape[1] + 1
        self._index: Any
        if kind == "flat":
            self._index = faiss.IndexFlatIP(dimension)
        elif kind == "hnsw":
            self._index = faiss.IndexHNSWFlat(dimension, 32, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = 100
            self._index.hnsw.efSearch = 128
        else:
            raise ValueError(f"kind is {kind!r}; expected 'flat' or 'hnsw'.")
        for first in range(0, titles.count, _BLOCK):
            part = slice(first, first + _BLOCK)
            self._index.add(with_column(titles.vectors[part], titles.bias[part]))

    def search(self, queries: ArrayLike, k: int) -> tuple[Vectors, Rows]:
        """Finds the best titles of each query; see `VectorIndex`."""
        asked, k = self._titles.check(queries, k)
        scores = np.full((len(asked), k), -np.inf, np.float32)
        rows = np.full((len(asked), k), -1, np.int64)
        wider = min(k + _SPARE, self._titles.count)
        _, candidates = self._index.search(with_column(asked, 1.0), wider)
        for query, found in enumerate(candidates):
            found = found[found >= 0]
            best, place = _best(self._titles.score(asked[query], found), found, k)
            scores[query, : len(best)], rows[query, : len(place)] = best, place
        return scores, rows


class _Titles:
    """The vectors and biases an index searches, checked."""

    def __init__(self, vectors: ArrayLike, bias: ArrayLike | None) -> None:
        self.vectors: NDArray[Any] = np.asanyarray(vectors)
        if self.vectors.ndim != 2 or not len(self.vectors):
            raise ValueError(
                f"vectors have the shape {self.vectors.shape}; expected (titles, dimension) with "
                "at least one title."
            )
        self.count = len(self.vectors)
        self.bias = np.zeros(self.count, np.float32) if bias is None else np.asarray(bias, "f4")
        if self.bias.shape != (self.count,):
            raise ValueError(f"bias has the shape {self.bias.shape}; expected ({self.count},).")
        blocks = (self.vectors[i : i + _BLOCK] for i in range(0, self.count, _BLOCK))
        if not (np.isfinite(self.bias).all() and all(np.isfinite(b).all() for b in blocks)):
            raise ValueError("A vector or a bias is not finite.")

    def check(self, queries: ArrayLike, k: int) -> tuple[Vectors, int]:
        """The queries as float32, and `k` cut to the number of titles."""
        asked = np.asarray(queries, np.float32)
        if asked.ndim != 2 or asked.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"queries have the shape {asked.shape}; expected "
                f"(queries, {self.vectors.shape[1]})."
            )
        if not np.isfinite(asked).all():
            raise ValueError("A query vector is not finite.")
        if k < 1:
            raise ValueError(f"k is {k}; expected at least 1.")
        return asked, min(k, self.count)

    def score(self, query: Vectors, rows: Rows) -> Vectors:
        """Scores of some titles, each the same whatever the others are: float32 `(rows,)`."""
        # Products of float32 are exact in float64, and each row is summed by itself.
        products = self.vectors[rows].astype(np.float64) * query.astype(np.float64)
        scores: Vectors = (products.sum(axis=1) + self.bias[rows]).astype(np.float32)
        return scores


def _best(scores: Vectors, rows: Rows, k: int) -> tuple[Vectors, Rows]:
    """The `k` best, equal scores by row."""
    order = np.lexsort((rows, -scores))[:k]
    return scores[order], rows[order]


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"faiss cannot be imported ({error}); install it with: {install('search')}. "
            "The exact index needs nothing more."
        ) from None
    module: ModuleType = faiss
    return module
