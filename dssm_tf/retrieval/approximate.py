"""Titles found by faiss among vectors of 8 bits a dimension, then scored exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dssm_tf.retrieval.index import SPARE, RescoringIndex, Rows, Vectors, load_faiss

SETTINGS = {
    "int8": ("rescored", (64, 128, 256, 512, 1024)),
    "ivf": ("nprobe", (4, 8, 16, 32, 64, 128, 256)),
    "hnsw": ("efSearch", (64, 128, 256, 512, 1024)),
}
"""Of each kind, what it is set by and the values that are tried, fastest first. A search for many
titles takes more than the value where it needs more candidates."""

_WIDTH = 16  # dimensions that faiss compares at once; others than its multiples it does one by one
_ADDED = 1 << 16  # titles added at once
_SAMPLE = 1 << 17  # vectors that ranges of dimensions and cells are learned from
_SEED = 1234


class Setting(NamedTuple):
    """How thoroughly an approximate index searches: a name of `SETTINGS` and its value."""

    name: str
    value: int


class ApproximateIndex(RescoringIndex):
    """A `RescoringIndex` whose candidates are found without comparing all titles in full.

    Inner products become distances: a title gets one more dimension that brings all to the length
    of the longest, a query 0 there, and the nearest title is the one with the highest inner
    product. A graph or cells of titles of different lengths, as a prior makes them, would
    otherwise lead to the longest ones.

    Args:
        vectors: of the titles, finite, `(titles, dimension)`; a memory-mapped file will do.
        kind: `int8` compares all titles by 8 bits a dimension; `ivf` those of the nearest cells;
            `hnsw` walks a graph.
        index: faiss's, as `build` makes it.
        value: of the kind's setting, see `SETTINGS`.

    Reference: Bachrach et al. 2014 for the dimension; Jegou et al. 2011 for the cells; Malkov and
        Yashunin 2020 for the graph.
    """

    def __init__(self, vectors: ArrayLike, kind: str, index: Any, value: int) -> None:
        super().__init__(vectors)
        self._index = index
        self.kind = kind
        self.setting = Setting(SETTINGS[kind][0], value)

    @classmethod
    def build(cls, vectors: Vectors, kind: str, value: int | None = None) -> ApproximateIndex:
        """Learns ranges and cells from a sample and adds all titles.

        Raises:
            UserError: faiss is not installed.
        """
        faiss = load_faiss()
        rows = len(vectors)
        dimension = -(-(vectors.shape[1] + 1) // _WIDTH) * _WIDTH
        bits = faiss.ScalarQuantizer.QT_8bit
        index: Any
        if kind == "int8":
            index = faiss.IndexScalarQuantizer(dimension, bits, faiss.METRIC_L2)
        elif kind == "hnsw":
            index = faiss.IndexHNSWSQ(dimension, bits, 32, faiss.METRIC_L2)
            index.hnsw.efConstruction = 100
        elif kind == "ivf":
            cells = max(1, min(rows // 40, int(2 * np.sqrt(rows))))
            center = faiss.IndexFlatL2(dimension)
            index = faiss.IndexIVFScalarQuantizer(center, dimension, cells, bits, faiss.METRIC_L2)
            index.cp.seed = _SEED
        else:
            raise ValueError(f"kind is {kind!r}; expected one of {', '.join(SETTINGS)}.")
        squares = np.einsum("nd,nd->n", vectors, vectors)
        missing = np.sqrt(squares.max() - squares)
        sample = np.random.default_rng(_SEED).permutation(rows)[:_SAMPLE]
        index.train(_widened(vectors[sample], missing[sample], dimension))
        for first in range(0, rows, _ADDED):
            part = slice(first, first + _ADDED)
            index.add(_widened(vectors[part], missing[part], dimension))
        return cls(vectors, kind, index, value or SETTINGS[kind][1][0])

    def with_value(self, value: int) -> ApproximateIndex:
        """The same index, searched with another value of its setting."""
        return ApproximateIndex(self._titles.vectors, self.kind, self._index, value)

    def save(self, path: Path) -> None:
        """Writes what faiss reads; the vectors are not in it."""
        self._faiss.write_index(self._index, str(path))

    @classmethod
    def load(cls, path: Path, vectors: Vectors, kind: str, value: int) -> ApproximateIndex:
        """Maps what `save` wrote into memory; vectors are those it was built of."""
        faiss = load_faiss()
        return cls(vectors, kind, faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC), value)

    def _candidates(self, queries: Vectors, k: int) -> Rows:
        wider = 2 * k + SPARE
        parameters = None
        if self.kind == "int8":
            wider = max(wider, self.setting.value)
        elif self.kind == "ivf":
            parameters = self._faiss.SearchParametersIVF(nprobe=self.setting.value)
        else:
            effort = max(self.setting.value, wider)
            parameters = self._faiss.SearchParametersHNSW(efSearch=effort)
        widened, wider = _widened(queries, 0.0, self._index.d), min(wider, self._titles.count)
        found: Rows = self._index.search(widened, wider, params=parameters)[1]
        return found


def _widened(vectors: Vectors, last: ArrayLike, dimension: int) -> Vectors:
    """Vectors with one more number, and zeros up to a dimension."""
    joined = np.zeros((len(vectors), dimension), np.float32)
    own = vectors.shape[1]
    joined[:, :own], joined[:, own] = vectors, last
    return joined
