"""The titles with the highest inner product, by faiss: all compared, or a graph walked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.runtime.vector_ranker import Vectors

Rows = NDArray[np.int64]

EXACT_UP_TO = 100_000
"""Titles that `auto` compares one by one."""

EFFORT = 512
"""faiss's efSearch: how many candidates a walk of the graph keeps at least."""

EXACT = "exact search (every title is compared)"

_SPARE = 32  # candidates beyond k, so that titles that tie at the cut are seen
_ROUNDING = 1e-5  # of an inner product in float32


@dataclass
class Nearest:
    """Finds titles by faiss and orders them by sums in double precision, ties by row.

    Inner products are distances here: a title gets one more dimension that brings all to the length
    of the longest, a query 0 there, and the nearest title is the best one. A graph of inner
    products would lead to the longest titles, those with the highest prior.

    Args:
        index: faiss's, `Flat` or `HNSW32`.
        measured: how it searches and how much it finds, in words.

    Reference: Bachrach et al. 2014 for the dimension; Malkov and Yashunin 2020 for the graph.
    """

    index: Any
    measured: str = EXACT

    @classmethod
    def build(
        cls, vectors: Vectors, kind: str = "exact", queries: Callable[[], Vectors] | None = None
    ) -> Nearest:
        """Adds the vectors of all titles; measures the recall of a fast index.

        Args:
            vectors: of the titles, `(titles, dimension)`.
            kind: `exact`, `fast`, or `auto`, which is exact up to 100,000 titles.
            queries: makes vectors to measure it with, `(queries, dimension)`.

        Raises:
            UserError: faiss is not installed.
        """
        fast = kind == "fast" or (kind == "auto" and len(vectors) > EXACT_UP_TO)
        squares = np.einsum("nd,nd->n", vectors, vectors)
        extended = np.column_stack([vectors, np.sqrt(squares.max() - squares)])
        index = load_faiss().index_factory(extended.shape[1], "HNSW32" if fast else "Flat")
        if fast:
            index.hnsw.efConstruction, index.hnsw.efSearch = 100, EFFORT
        index.add(extended)
        nearest = cls(index)
        if fast and queries is not None:
            probes = queries()
            at_10, at_100 = (recall(nearest, vectors, probes, k) for k in (10, 100))
            nearest.measured = (
                f"fast: recall@10 {at_10:.3f}, @100 {at_100:.3f}, on {len(probes)} queries"
            )
        return nearest

    def search(self, query: Vectors, k: int) -> tuple[Vectors, Rows]:
        """Finds the best titles for a query.

        Args:
            query: `(dimension,)`.
            k: how many titles at most, at least 1.

        Returns:
            Scores and rows, both `(min(k, titles),)`, best first, equal scores by row.
        """
        extended = np.append(query, 0).astype(np.float32)[None]
        rows = self.index.search(extended, min(k + _SPARE, self.index.ntotal))[1][0]
        rows = rows[rows >= 0]
        scores = self.score(query, rows)
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def score(self, query: Vectors, rows: Rows) -> Vectors:
        """Scores of some titles, each the same whatever the others are: float32 `(rows,)`."""
        # Products of float32 are exact in float64, and each row is summed by itself.
        vectors = self.index.reconstruct_batch(rows)[:, :-1].astype(np.float64)
        return (vectors * query.astype(np.float64)).sum(axis=1).astype(np.float32)

    def save(self, path: Path) -> None:
        """Writes faiss's file, vectors included."""
        load_faiss().write_index(self.index, str(path))

    @classmethod
    def open(cls, path: Path) -> Nearest:
        """Maps what `save` wrote into memory."""
        faiss = load_faiss()
        return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC))


def recall(nearest: Nearest, vectors: Vectors, queries: Vectors, k: int) -> float:
    """The mean share of the best k titles that are found; a tie with the last one counts."""
    k = min(k, len(vectors))
    shares = []
    for query in queries:
        last = np.partition(vectors @ query, -k)[-k] - _ROUNDING
        shares.append(np.mean(nearest.search(query, k)[0] >= last))
    return float(np.mean(shares))


def load_faiss() -> Any:
    """The library.

    Raises:
        UserError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"faiss cannot be imported ({error}); install it with: {install_command('search')}."
        ) from None
    return faiss
