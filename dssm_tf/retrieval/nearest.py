"""Search for the titles with the highest inner product by faiss: exact, or by an HNSW graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.retrieval.index_checks import nearest_problem
from dssm_tf.runtime.trained_ranker import Vectors

RowIndices = NDArray[np.int64]

EXACT_UP_TO = 100_000
"""The largest number of titles for which `auto` is exact."""

EF_SEARCH = 512
"""The parameter efSearch of faiss: the number of candidates that a search of the graph retains."""

EXACT = "exact search (every title is compared)"

_EXTRA = 32  # candidates beyond k, so that titles that tie with the last one are included
_ROUNDING = 1e-5  # of an inner product in float32


@dataclass
class Nearest:
    """An index of title vectors that ranks by inner product in double precision, ties by row.

    The inner product is turned into a distance. Each title gets one more dimension, which brings
    all titles to the length of the longest; a query has 0 there. The nearest title is then the one
    with the highest inner product. (A graph of inner products would favor the longest vectors,
    those with the highest prior.)

    Args:
        index: faiss index, `Flat` or `HNSW32`.
        summary: describes the kind of search and its recall.

    Reference: Bachrach et al. 2014 for the dimension; Malkov and Yashunin 2020 for the graph.
    """

    index: Any
    summary: str = EXACT

    @classmethod
    def build(
        cls, vectors: Vectors, kind: str = "exact", queries: Callable[[], Vectors] | None = None
    ) -> Nearest:
        """Builds an index of all titles and measures its recall if it is a fast one.

        Args:
            vectors: vectors of the titles, `(titles, dimension)`.
            kind: `exact`, `fast`, or `auto`, which is exact up to 100,000 titles.
            queries: returns query vectors to measure recall, `(queries, dimension)`.

        Raises:
            UserError: faiss is not installed.
        """
        fast = kind == "fast" or (kind == "auto" and len(vectors) > EXACT_UP_TO)
        squares = np.einsum("nd,nd->n", vectors, vectors)
        extended = np.column_stack([vectors, np.sqrt(squares.max() - squares)])
        index = load_faiss().index_factory(extended.shape[1], "HNSW32" if fast else "Flat")
        if fast:
            index.hnsw.efConstruction, index.hnsw.efSearch = 100, EF_SEARCH
        index.add(extended)
        nearest = cls(index)
        if fast and queries is not None:
            query_vectors = queries()
            at_10, at_100 = (recall(nearest, vectors, query_vectors, k) for k in (10, 100))
            nearest.summary = (
                f"fast: recall@10 {at_10:.3f}, @100 {at_100:.3f}, on {len(query_vectors)} queries"
            )
        return nearest

    def search(
        self, query: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Vectors, RowIndices]:
        """Returns the best titles for a query.

        Args:
            query: query vector, `(dimension,)`.
            k: maximum number of titles, at least 1.
            allowed: `(titles,)`, whether each title may be returned; None for all.

        Returns:
            Scores and row indices, both `(min(k, titles),)`, best first, ties by row.
        """
        extended = np.append(query, 0).astype(np.float32)[None]
        count = min(k + _EXTRA, self.index.ntotal)
        if allowed is None:
            rows = self.index.search(extended, count)[1][0]
        else:
            faiss = load_faiss()
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            if hasattr(self.index, "hnsw"):
                parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=EF_SEARCH)
            else:
                parameters = faiss.SearchParameters(sel=selector)
            rows = self.index.search(extended, count, params=parameters)[1][0]
        rows = rows[rows >= 0]
        scores = self.score(query, rows)
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def score(self, query: Vectors, rows: RowIndices) -> Vectors:
        """Scores of the titles at some rows, float32 `(rows,)`; no score depends on other rows."""
        # Products of float32 are exact in float64, and each row is summed separately.
        vectors = self.index.reconstruct_batch(rows)[:, :-1].astype(np.float64)
        return (vectors * query.astype(np.float64)).sum(axis=1).astype(np.float32)

    def save(self, path: Path) -> None:
        """Writes a faiss file, including the vectors."""
        load_faiss().write_index(self.index, str(path))

    @classmethod
    def open(cls, path: Path, hint: str = "Build the index again.", mapped: bool = True) -> Nearest:
        """Memory-maps or reads, and checks a file that `save` wrote.

        Raises:
            UserError: the file is missing or damaged, or faiss is not installed.
        """
        faiss = load_faiss()
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
        except (RuntimeError, MemoryError) as error:  # a damaged size asks for too much memory
            reason = " ".join(str(error).split())[-200:]
            raise UserError(f"{path} is not an index of faiss ({reason}). {hint}") from None
        if problem := nearest_problem(faiss, index):
            raise UserError(f"{path}: {problem}. {hint}")
        return cls(index)


def recall(nearest: Nearest, vectors: Vectors, queries: Vectors, k: int) -> float:
    """The mean fraction of the best k titles that a search returns.

    A returned title counts as one of them if its inner product is at least that of the k-th best.

    Args:
        nearest: the index.
        vectors: vectors of the titles, `(titles, dimension)`.
        queries: vectors of queries, `(queries, dimension)`.
        k: number of titles.
    """
    k = min(k, len(vectors))
    fractions = []
    for query in queries:
        last = np.partition(vectors @ query, -k)[-k] - _ROUNDING
        fractions.append(np.mean(nearest.search(query, k)[0] >= last))
    return float(np.mean(fractions))


def load_faiss() -> Any:
    """Imports faiss.

    Raises:
        UserError: faiss is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"faiss cannot be imported ({error}); install it with: {install_command('search')}."
        ) from None
    return faiss
