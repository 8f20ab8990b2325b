"""Checks of the faiss and bm25s files of an index, because these libraries do not check them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.plain_data import read_json

_BLOCK = 1 << 20  # numbers that are checked at once


def check_bm25(directory: Path, titles: int, hint: str, mapped: bool = True) -> None:
    """Checks the files of a bm25s index, which has a column of scores for each word.

    Args:
        directory: the files.
        titles: number of titles.
        hint: a sentence for the error message that says how to fix the problem.
        mapped: False to read the files into memory.

    Raises:
        UserError: a file is missing or damaged, or a search would read outside of an array.
    """

    def refuse(name: str, problem: str) -> None:
        raise UserError(f"{directory / name}: {problem}. {hint}")

    settings = read_json(directory / "params.index.json", hint)
    expected = {"dtype": "float64", "backend": "numpy", "method": "lucene", "num_docs": titles}
    for key, value in expected.items():
        if not isinstance(settings, dict) or settings.get(key) != value:
            refuse("params.index.json", f"expected {key} to be {value!r}")
    vocabulary = read_json(directory / "vocab.index.json", hint)
    rows = [*vocabulary.values()] if isinstance(vocabulary, dict) else []
    if not rows or not all(type(row) is int for row in rows) or {*rows} != {*range(len(rows))}:
        refuse("vocab.index.json", "expected a word for each of the numbers 0, 1, and so on")
    scores, columns, starts = (
        map_array(directory / f"{name}.csc.index.npy", hint, mapped)
        for name in ("data", "indices", "indptr")
    )
    if scores.dtype != np.float64 or scores.ndim != 1 or not np.isfinite(scores).all():
        refuse("data.csc.index.npy", "expected finite float64 scores in one dimension")
    if columns.dtype.kind not in "iu" or columns.shape != scores.shape:
        refuse("indices.csc.index.npy", f"expected a whole number for each of {scores.size} scores")
    if columns.size and not (columns.min() >= 0 and columns.max() < titles):
        refuse("indices.csc.index.npy", f"a number is out of range; expected 0 to {titles - 1}")
    if starts.dtype.kind not in "iu" or starts.shape != (len(rows) + 1,):
        refuse("indptr.csc.index.npy", f"expected {len(rows) + 1} whole numbers")
    if starts[0] != 0 or starts[-1] != scores.size or (starts[1:] < starts[:-1]).any():
        refuse("indptr.csc.index.npy", f"expected 0 to {scores.size}, never decreasing")


def nearest_problem(faiss: Any, index: Any) -> str | None:
    """Says what is wrong with a faiss index; None if a search stays within its vectors.

    Args:
        faiss: the module.
        index: of vectors, exact or as a graph.
    """
    flat = index
    if type(index) is faiss.IndexHNSWFlat:
        flat = faiss.downcast_index(index.storage)
        if problem := _graph_problem(faiss, index):
            return problem
    if (
        type(flat) not in (faiss.IndexFlat, faiss.IndexFlatL2)
        or flat.metric_type != index.metric_type
    ):
        return f"it is of type {type(index).__name__}; expected IndexFlatL2 or IndexHNSWFlat"
    if (flat.ntotal, flat.d) != (index.ntotal, index.d) or index.metric_type != faiss.METRIC_L2:
        return "its graph and its vectors do not belong together"
    if flat.codes.size() != 4 * flat.ntotal * flat.d:
        return f"it has {flat.codes.size()} bytes of vectors; expected {4 * flat.ntotal * flat.d}"
    numbers = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)
    for start in range(0, len(numbers), _BLOCK):
        if not np.isfinite(numbers[start : start + _BLOCK]).all():
            return "it has a number that is not finite"
    return None


def _graph_problem(faiss: Any, index: Any) -> str | None:
    """Says what is wrong with an HNSW graph: an offset, a level or a neighbor out of range."""
    graph, rows = index.hnsw, index.ntotal
    offsets, levels, widths = (
        faiss.vector_to_array(vector).astype(np.int64)
        for vector in (graph.offsets, graph.levels, graph.cum_nneighbor_per_level)
    )
    neighbors = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size())
    if levels.shape != (rows,) or offsets.shape != (rows + 1,):
        return "its graph and its vectors do not belong together"
    if rows and not (levels.min() >= 1 and levels.max() <= graph.max_level + 1 < len(widths)):
        return "a level of its graph is out of range"
    if (
        offsets[0] != 0
        or offsets[-1] != len(neighbors)
        or (np.diff(offsets) != widths[levels]).any()
    ):
        return "an offset of its graph is out of range"
    if len(neighbors) and not (neighbors.min() >= -1 and neighbors.max() < rows):
        return "a neighbor of its graph is out of range"
    if rows and not (0 <= graph.entry_point < rows and levels[graph.entry_point] > graph.max_level):
        return "the first entry of its graph is out of range"
    return None
