"""NDCG as TensorFlow Ranking computes it: the only file that knows the library.

The library is not maintained. Its packages import `tf.estimator` and Keras 2,
which are gone from TensorFlow >= 2.16; its metrics need neither. So only the
metrics module is loaded, past the packages around it, and nothing of that stays
behind: no environment variable, no placeholder in TensorFlow, no module table
entry.

What the library does differently, and what is done about it here:

- It orders tied scores at random. It is given ranks, which have no ties.
- It keeps scores in single precision, where close scores become ties. Ranks again.
- It computes in single precision, and 1 / 1 may come out as 0.99999994 in one
  place of a batch and as 1 in another. Values are rounded to six digits, so
  equal rankings have equal values.
- It counts a query without a relevant title as 0. Such values become NaN, and
  the mean over the rest is the caller's.
- It wants whole rankings. It is given each up to the last cut-off, and as many of
  the best other titles; what follows changes no NDCG.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl

from dssm_tf.evaluation import metrics
from dssm_tf.evaluation.metrics import METRICS, Values, parse_metric

_LIBRARY = "tensorflow_ranking"
_CELLS = 1 << 20  # of one padded batch: 4 MiB a tensor
_DIGITS = 6
_import_lock = threading.Lock()


def per_query(
    ranks: pl.DataFrame, queries: int, names: Sequence[str] = METRICS
) -> dict[str, Values]:
    """Computes metrics as `metrics.per_query` does, NDCG by TensorFlow Ranking, to six digits."""
    values = metrics.per_query(ranks, queries, names)
    cutoffs = {name: parse_metric(name)[1] for name in names if name.startswith("ndcg")}
    if cutoffs:
        # Of what comes behind the last cut-off only the best titles count, in the ideal ranking.
        deepest = max(cutoffs.values())
        near = (pl.col("rank") <= deepest).fill_null(False)
        behind = pl.col("grade").rank("ordinal", descending=True).over("query", near) + deepest
        cells = ranks.select("query", "grade", at=pl.when(near).then("rank").otherwise(behind) - 1)
        query, grade, at = cells.filter(pl.col("at") < 2 * deepest).to_numpy().T
        labels = np.zeros((queries, 2 * deepest), np.float32)
        labels[query.astype(int), at.astype(int)] = grade
        parts = np.array_split(labels, 1 + labels.size // _CELLS)
        rows = zip(*(_computation(tuple(cutoffs.items()))(part) for part in parts), strict=True)
        for name, row in zip(cutoffs, rows, strict=True):
            values[name][:] = np.where(labels.any(axis=1), np.concatenate(row), np.nan)
    return {name: row.round(_DIGITS) for name, row in values.items()}


@cache
def _computation(cutoffs: tuple[tuple[str, int], ...]) -> Callable[..., Sequence[Any]]:
    """One traced function for NDCG at these cut-offs.

    In a traced function the library's shuffling draws from the function's own
    random state, so an evaluation between two training steps changes neither.
    """
    import tensorflow as tf

    library = _metrics_module()

    def compute(labels: Any) -> list[Any]:
        with tf.device("CPU:0"):
            scores = tf.zeros_like(labels) - tf.range(tf.shape(labels)[1], dtype=tf.float32)
            everything = tf.ones_like(labels, dtype=tf.bool)
            rows = []
            for name, cutoff in cutoffs:
                metric = library.NDCGMetric(name, cutoff)
                value, _ = metric.compute(labels, scores, mask=everything)
                rows.append(value[:, 0])
            return rows

    return tf.function(
        compute,
        autograph=False,
        input_signature=[tf.TensorSpec([None, None], tf.float32)],
    )


@cache
def _metrics_module() -> ModuleType:
    """Loads `tensorflow_ranking.python.metrics_impl` without its packages' own code.

    While it loads, two empty packages with the library's paths stand in the
    module table; what the table held before is put back.
    """
    spec = importlib.util.find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            f"{_LIBRARY} is not installed; pip install tensorflow-ranking==0.5.3 --no-deps."
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    with _import_lock:
        before = _take_library_modules()
        try:
            for name, folder in ((_LIBRARY, root), (f"{_LIBRARY}.python", root / "python")):
                package = ModuleType(name)
                package.__path__ = [str(folder)]
                sys.modules[name] = package
            return importlib.import_module(f"{_LIBRARY}.python.metrics_impl")
        finally:
            _take_library_modules()
            sys.modules.update(before)


def _take_library_modules() -> dict[str, ModuleType]:
    """Takes the library's modules out of the module table."""
    names = [name for name in sys.modules if name == _LIBRARY or name.startswith(f"{_LIBRARY}.")]
    return {name: sys.modules.pop(name) for name in names}
