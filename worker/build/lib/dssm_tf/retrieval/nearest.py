"""The titles with the highest inner product, by faiss: all compared, or a graph walked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install
from dssm_tf.text.rules import FOLDED

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

KINDS = ("auto", "exact", "fast")
TARGET = 0.98
"""The least recall@10 that a fast index is used with."""

EXACT_UP_TO = 100_000
"""Titles that `auto` compares one by one."""

EFFORTS = (64, 128, 256, 512, 1024)
"""Values of faiss's efSearch that are tried, fastest first."""

PROBES = 400
"""Queries that a fast index is tried on; half choose its effort, half confirm it."""

_SPARE = 32  # candidates beyond k, so that titles that tie at the cut are seen
_ROUNDING = 1e-5  # of an inner product in float32, for each unit of it
_SURE = 1.64  # standard errors: recall this far above the target is there 19 times in 20


@dataclass(frozen=True)
class Measured:
    """How thoroughly an index searches, and what it finds of what comparing all titles finds.

    Attributes:
        effort: faiss's efSearch; 0 compares all titles.
        recall: at 10 and 100 titles, means over queries that had no part in the choice.
        queries: how many these were.
        note: why it is exact although a fast one was asked for, or empty.
    """

    effort: int = 0
    recall: tuple[float, float] = (1.0, 1.0)
    queries: int = 0
    note: str = ""

    def sentence(self) -> str:
        """What is printed of it.

        >>> Measured(64, (0.9931, 0.981), 200).sentence()
        'fast, efSearch 64: recall@10 0.993, @100 0.981, on 200 queries'
        """
        if not self.effort:
            return f"{self.note}exact: all titles are compared"
        at_10, at_100 = self.recall
        return (
            f"fast, efSearch {self.effort}: recall@10 {at_10:.3f}, @100 {at_100:.3f}, "
            f"on {self.queries} queries"
        )


class Nearest:
    """Finds titles by faiss and orders them by sums in double precision, ties by row.

    In a graph inner products are distances: a title gets one more dimension that brings all to the
    length of the longest, a query 0 there, and the nearest title is the best one. A graph of
    inner products would lead to the longest titles, those with the highest prior.

    Args:
        index: faiss's, `Flat` or `HNSW32`.
        dimension: of the vectors, without that one more.
        measured: how it is searched; a graph can be searched exactly, too.

    Reference: Bachrach et al. 2014 for the dimension; Malkov and Yashunin 2020 for the graph.
    """

    def __init__(self, index: Any, dimension: int, measured: Measured = Measured()) -> None:
        self._faiss = load_faiss()
        self.index, self.dimension, self.measured = index, dimension, measured
        graph = isinstance(index, self._faiss.IndexHNSW)
        self._flat = self._faiss.downcast_index(index.storage) if graph else index

    @classmethod
    def build(cls, vectors: Vectors, graph: bool = False) -> Nearest:
        """Adds the vectors of all titles, `(titles, dimension)`.

        Raises:
            UserError: faiss is not installed.
        """
        faiss, dimension = load_faiss(), vectors.shape[1]
        if graph:
            squares = np.einsum("nd,nd->n", vectors, vectors)
            vectors = np.column_stack([vectors, np.sqrt(squares.max() - squares)])
        kind, metric = (
            ("HNSW32", faiss.METRIC_L2) if graph else ("Flat", faiss.METRIC_INNER_PRODUCT)
        )
        index = faiss.index_factory(vectors.shape[1], kind, metric)
        if graph:
            index.hnsw.efConstruction = 100
        index.add(np.ascontiguousarray(vectors, np.float32))
        return cls(index, dimension)

    def search(
        self, query: Vectors, k: int, rows: Rows | None = None, exact: bool = False
    ) -> tuple[Vectors, Rows]:
        """Finds the best titles of a query.

        Args:
            query: `(dimension,)`.
            k: how many titles at most, at least 1.
            rows: the only titles to find, all compared; every title if None.
            exact: whether a graph's titles are compared, too.

        Returns:
            Scores and rows, both `(min(k, titles),)`, best first, equal scores by row.
        """
        count = self.index.ntotal if rows is None else len(rows)
        exact = exact or rows is not None or not self.measured.effort
        index = self._flat if exact else self.index
        asked = np.zeros((1, index.d), np.float32)
        asked[0, : self.dimension] = query
        width = min(k + _SPARE, count)
        while width:
            if exact:
                chosen = None if rows is None else self._faiss.IDSelectorBatch(rows)
                how = self._faiss.SearchParameters(sel=chosen)
            else:
                how = self._faiss.SearchParametersHNSW(efSearch=max(self.measured.effort, width))
            found = index.search(asked, width, params=how)[1][0]
            found = found[found >= 0]
            scores = self.score(query, found)
            order = np.lexsort((found, -scores))[:k]
            last = scores[order[-1]]
            if width == count or not exact or scores.min() < last - _ROUNDING * max(1, abs(last)):
                return scores[order], found[order]
            width = min(4 * width, count)  # more titles tie at the cut than were spared
        return np.zeros(0, np.float32), np.zeros(0, np.int64)

    def score(self, query: Vectors, rows: Rows) -> Vectors:
        """Scores of some titles, each the same whatever the others are: float32 `(rows,)`."""
        # Products of float32 are exact in float64, and each row is summed by itself.
        vectors = self._flat.reconstruct_batch(rows)[:, : self.dimension].astype(np.float64)
        scores: Vectors = (vectors * query.astype(np.float64)).sum(axis=1).astype(np.float32)
        return scores

    def save(self, path: Path) -> None:
        """Writes faiss's file, vectors included."""
        self._faiss.write_index(self.index, str(path))

    @classmethod
    def open(cls, path: Path, dimension: int, measured: Measured) -> Nearest:
        """Maps what `save` wrote into memory."""
        faiss = load_faiss()
        return cls(faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC), dimension, measured)


def choose_nearest(
    vectors: Vectors,
    queries: Callable[[], Vectors],
    kind: str = "auto",
    target: float = TARGET,
    report: Callable[[str], object] = lambda step: None,
) -> Nearest:
    """An index of a kind, searched thoroughly enough; an exact one where a fast one cannot be.

    Every other query chooses: the smallest effort whose recall@10 is above the target by more than
    chance. The other queries confirm that one effort, once; their recall is what is reported.

    Args:
        vectors: of the titles, `(titles, dimension)`.
        queries: makes vectors to try it with, `(queries, dimension)`.
        kind: one of `KINDS`; `auto` is exact up to 100,000 titles.
        target: least recall@10.
        report: called with what is being done.
    """
    if kind == "exact" or (kind == "auto" and len(vectors) <= EXACT_UP_TO):
        return Nearest.build(vectors)
    report("building the graph")
    nearest = Nearest.build(vectors, graph=True)
    asked = queries()

    def recall(asked: Vectors, k: int) -> NDArray[np.float64]:
        # Of titles that tie with the last, any will do.
        exact = [nearest.search(query, k, exact=True)[0] for query in asked]
        found = [nearest.search(query, k)[0] for query in asked]
        return np.array([(f >= e[-1]).sum() / len(e) for f, e in zip(found, exact, strict=True)])

    for effort in EFFORTS:
        report(f"trying efSearch {effort}")
        nearest.measured = Measured(effort)
        shares = recall(asked[::2], 10)
        if shares.mean() - _SURE * shares.std() / len(shares) ** 0.5 >= target:
            break
    confirming = asked[1::2]
    at_10, at_100 = (float(recall(confirming, k).mean()) for k in (10, 100))
    nearest.measured = Measured(effort, (at_10, at_100), len(confirming))
    if at_10 < target:
        note = (
            f"a graph finds {at_10:.4f} of what it should (recall@10), and {target:g} is asked "
            "for, as happens where titles are nearly equal; "
        )
        nearest = Nearest.build(vectors)
        nearest.measured = Measured(note=note)
    return nearest


def probe_queries(titles: Sequence[str], count: int = PROBES) -> list[str]:
    """Queries made of some of the words of titles drawn by lot; each word stays with even odds.

    Args:
        titles: at least one has a word.
        count: how many queries.
    """
    random = np.random.default_rng(20131027)
    made: list[str] = []
    for row in cycle(random.permutation(len(titles)).tolist()):
        words = FOLDED.words(titles[row])
        chosen = [word for word in words if random.random() < 0.5] or words[:1]
        made += [" ".join(chosen)] if chosen else []
        if len(made) == count:
            break
    return made


def load_faiss() -> Any:
    """The library.

    Raises:
        UserError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            f"faiss cannot be imported ({error}); install it with: {install('search')}."
        ) from None
    return faiss
