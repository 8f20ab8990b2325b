"""TensorFlow Ranking's metrics: the only file that knows the library.

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
- It counts a title as relevant from grade 1 up. It is given 1 for any grade
  above 0, except for NDCG, which uses the grade.
- It counts a query without a relevant title as 0. Such values become NaN, and
  the mean over the rest is the caller's.
- It wants whole rankings. It is given each up to its last relevant title; what
  follows changes no metric.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.metrics import METRICS, Values, parse_metric
from dssm_tf.evaluation.ranking import RelevantRanks

_LIBRARY = "tensorflow_ranking"
_CELLS = 1 << 20  # of one padded batch: 4 MiB a tensor
_DIGITS = 6
_import_lock = threading.Lock()


def per_query(ranks: RelevantRanks, names: Sequence[str] = METRICS) -> dict[str, Values]:
    """Computes metrics for every query, as `metrics.per_query`, by TensorFlow Ranking.

    Args:
        ranks: the ranks and grades of the relevant titles.
        names: see `metrics.parse_metric`.

    Returns:
        `(queries,)` float64 a metric, six digits, NaN for queries without a
        relevant title.
    """
    values = {name: np.full(ranks.queries, np.nan) for name in names}
    cutoffs = {name: parse_metric(name)[1] for name in names}
    with_cutoff = tuple(name for name in names if cutoffs[name] is not None)
    without = tuple(name for name in names if cutoffs[name] is None)
    deepest = max((cutoff for cutoff in cutoffs.values() if cutoff is not None), default=1)
    # Behind the last cut-off a title counts as little as one that is not ranked.
    near = replace(ranks, rank=np.where(ranks.rank <= deepest, ranks.rank, 0))
    for group, kept in ((with_cutoff, near), (without, ranks)):
        for queries, ranked, labels in _batches(kept, deepest) if group else ():
            rows = _computation(group)(labels, np.int32(ranked))
            for name, row in zip(group, rows, strict=True):
                values[name][queries] = np.round(row.numpy().astype(np.float64), _DIGITS)
    return values


def _batches(
    ranks: RelevantRanks, shortest: int
) -> Iterator[tuple[NDArray[np.int64], int, NDArray[np.float32]]]:
    """Yields query rows, the length of their rankings, and labels in ranking order.

    The labels are `(batch, ranked + unranked)`: column `r - 1` holds the grade
    at rank `r`; the columns behind the rankings hold the relevant titles that
    are not ranked, which count in the ideal ranking only. A ranking ends at its
    last relevant title, but not before rank `shortest`.
    """
    length = np.full(ranks.queries, shortest)
    np.maximum.at(length, ranks.query, ranks.rank)
    counts = np.bincount(ranks.query, minlength=ranks.queries)
    starts = np.cumsum(counts) - counts
    # Short rankings with short ones, so that one long one does not pad them all.
    order = np.argsort(length, kind="stable")
    order = order[ranks.judged[order]]
    width = length + counts
    while len(order):
        cells = np.maximum.accumulate(width[order]) * np.arange(1, len(order) + 1)
        size = max(1, int(np.count_nonzero(cells <= _CELLS)))
        batch, order = order[:size], order[size:]
        ranked = int(length[batch].max())
        first = np.repeat(np.cumsum(counts[batch]) - counts[batch], counts[batch])
        nth = np.arange(len(first)) - first  # among the relevant titles of its query
        entries = np.repeat(starts[batch], counts[batch]) + nth
        rank = ranks.rank[entries]
        labels = np.zeros((size, ranked + int(counts[batch].max())), dtype=np.float32)
        row = np.repeat(np.arange(size), counts[batch])
        labels[row, np.where(rank > 0, rank - 1, ranked + nth)] = ranks.grade[entries]
        yield batch, ranked, labels


@cache
def _computation(names: tuple[str, ...]) -> Callable[..., Sequence[Any]]:
    """One traced function for these metrics.

    In a traced function the library's shuffling draws from the function's own
    random state, so an evaluation between two training steps changes neither.
    """
    import tensorflow as tf

    library = _metrics_module()

    def compute(labels: Any, ranked: Any) -> list[Any]:
        with tf.device("CPU:0"):
            scores = tf.zeros_like(labels) - tf.range(tf.shape(labels)[1], dtype=tf.float32)
            everything = tf.ones_like(labels, dtype=tf.bool)
            relevant = tf.cast(labels > 0, tf.float32)
            rows = []
            for name in names:
                kind, cutoff = parse_metric(name)
                metric = {
                    "ndcg": library.NDCGMetric,
                    "mrr": library.MRRMetric,
                    "recall": library.RecallMetric,
                    "precision": library.PrecisionMetric,
                    "map": library.MeanAveragePrecisionMetric,
                }[kind](name, ranked if cutoff is None else cutoff)
                grades = labels if kind == "ndcg" else relevant
                value, _ = metric.compute(grades, scores, mask=everything)
                rows.append(value[:, 0])
            return rows

    return tf.function(  # type: ignore[no-any-return]
        compute,
        autograph=False,
        input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32)],
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
