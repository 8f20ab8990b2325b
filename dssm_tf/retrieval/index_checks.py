"""Checks of the faiss and bm25s files of an index, because these libraries do not check them.

`sample_problem` finds files that do not belong together although their checksums fit. It does not
find a change of a title that is not in the sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json
from dssm_tf.retrieval.content_checks import sample_rows
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.text.rules import FOLDED

_BLOCK = 1 << 20  # numbers that are checked at once
_ROUNDING = 1e-3  # largest difference of a number of a vector; CPUs differ by less


def check_bm25(directory: Path, title_count: int, hint: str, mapped: bool = True) -> None:
    """Checks the files of a bm25s index, which has a column of scores for each word.

    Args:
        directory: the files.
        title_count: number of titles.
        hint: a sentence for the error message that says how to fix the problem.
        mapped: False to read the files into memory.

    Raises:
        UserError: a file is missing or damaged, or a search would read outside of an array.
    """

    def refuse(name: str, problem: str) -> None:
        raise UserError(f"{directory / name}: {problem}. {hint}")

    settings = read_json(directory / "params.index.json", hint)
    expected = {
        "dtype": "float64", "int_dtype": "int32", "backend": "numpy", "method": "lucene",
        "num_docs": title_count,
    }  # fmt: skip
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
    if columns.size and not (columns.min() >= 0 and columns.max() < title_count):
        refuse(
            "indices.csc.index.npy", f"a number is out of range; expected 0 to {title_count - 1}"
        )
    if starts.dtype.kind not in "iu" or starts.shape != (len(rows) + 1,):
        refuse("indptr.csc.index.npy", f"expected {len(rows) + 1} whole numbers")
    if starts[0] != 0 or starts[-1] != scores.size or (starts[1:] < starts[:-1]).any():
        refuse("indptr.csc.index.npy", f"expected 0 to {scores.size}, never decreasing")


def nearest_problem(faiss: Any, index: Any) -> str | None:
    """Describes the problem of a faiss index; None if a search cannot leave its vectors.

    Args:
        faiss: the module.
        index: the index: exact, or an HNSW graph.
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
    """Describes an offset, a level or a neighbor of an HNSW graph that is out of range, if any."""
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


def sample_problem(model: VectorRanker, titles: Any, lexical: Any, index: Any) -> str | None:
    """Compares a sample of titles with their vectors and words; None if they fit together.

    Args:
        model: the model of the index.
        titles: the column `title` of the entries.
        lexical: the bm25s index of the titles.
        index: the faiss index of their vectors, see `Nearest.build`.

    Returns:
        The problem, for an error message.
    """
    rows = sample_rows(len(titles))
    texts = [titles[row].as_py() for row in rows]
    vectors = index.reconstruct_batch(np.array(rows, np.int64))
    if not np.allclose(vectors[:, :-1], model.encode_titles(texts, prior=True), atol=_ROUNDING):
        return "a vector differs from its title's"
    # The added component makes all vectors equally long.
    squares = np.einsum("nd,nd->n", vectors, vectors)
    if not np.allclose(squares, squares[:1], rtol=_ROUNDING):
        return "the vectors differ in length"
    # Scores of bm25s are in columns, one for each word.
    is_sampled = np.zeros(len(titles), np.bool_)
    is_sampled[rows] = True
    columns, starts = lexical.scores["indices"], lexical.scores["indptr"]
    positions = np.flatnonzero(is_sampled[columns])
    words_at_positions = np.searchsorted(starts, positions, side="right") - 1
    received = {*zip(columns[positions].tolist(), words_at_positions.tolist(), strict=True)}
    word_ids = lexical.vocab_dict
    expected = {
        (row, word_ids.get(word))
        for row, text in zip(rows, texts, strict=True)
        for word in FOLDED.words(text)
    }
    return None if received == expected else "the words of bm25s differ from those of the titles"
