"""NDCG as TensorFlow Ranking computes it. No other file uses the library.

The library is not maintained, and `import tensorflow_ranking` fails: it imports
`tf.estimator`, which TensorFlow 2.16 removed, and the Keras 2 parts of `tf.keras`.
Its metrics are in two files that need only TensorFlow. `_load_metrics` runs these
two files as modules of this package. It adds nothing to `sys.modules` and changes
no environment variable, so `import tensorflow_ranking` succeeds or fails as before.

Differences of the library, and how this file handles them:

- It orders tied scores at random. Its input here is ranks, which have no ties.
- It stores scores in single precision, where close scores become ties. Ranks avoid
  this too.
- It computes in single precision, and 1 / 1 may be 0.99999994 in one row of a batch
  and 1 in another. Values are rounded to six digits, so equal rankings have equal
  values.
- It counts a query without a relevant title as 0. Such values become NaN here.
- It needs complete rankings. Its input here is each ranking up to the last cut-off,
  and as many of the best other titles; further titles change no NDCG.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation import metrics
from dssm_tf.evaluation.metrics import METRICS, Values, parse_metric

_LIBRARY = "tensorflow_ranking"
_IMPORT_OF_UTILS = f"from {_LIBRARY}.python import utils"
_CELLS = 1 << 20  # of one padded batch: 4 MiB per tensor
_DIGITS = 6


def per_query(
    ranks: pl.DataFrame, query_count: int, names: Sequence[str] = METRICS
) -> dict[str, Values]:
    """Computes metrics as `metrics.per_query` does, NDCG by TensorFlow Ranking, to six digits."""
    values = metrics.per_query(ranks, query_count, names)
    cutoffs = {name: parse_metric(name)[1] for name in names if name.startswith("ndcg")}
    if cutoffs:
        # Titles behind the last cut-off matter only for the ideal ranking, and only the best ones.
        deepest = max(cutoffs.values())
        within = (pl.col("rank") <= deepest).fill_null(False)
        behind = pl.col("grade").rank("ordinal", descending=True).over("query", within) + deepest
        cells = ranks.select(
            "query", "grade", column=pl.when(within).then("rank").otherwise(behind) - 1
        )
        query, grade, column = cells.filter(pl.col("column") < 2 * deepest).to_numpy().T
        labels = np.zeros((query_count, 2 * deepest), np.float32)
        labels[query.astype(int), column.astype(int)] = grade
        batches = np.array_split(labels, 1 + labels.size // _CELLS)
        for name, cutoff in cutoffs.items():
            ndcg = np.concatenate([_ndcg(cutoff)(batch) for batch in batches])[:, 0]
            values[name][:] = np.where(labels.any(axis=1), ndcg, np.nan)
    return {name: row.round(_DIGITS) for name, row in values.items()}


@cache
def _ndcg(cutoff: int) -> Callable[[NDArray[np.float32]], Any]:
    """NDCG at a cut-off: from grades `(queries, titles)`, best title first, to `(queries, 1)`.

    In a traced function the library's shuffling draws from the function's own
    random state, so an evaluation between two training steps changes neither.
    """
    import tensorflow as tf

    metric = _load_metrics().NDCGMetric(None, cutoff)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def compute(labels: Any) -> Any:
        with tf.device("CPU:0"):
            scores = tf.zeros_like(labels) - tf.range(tf.shape(labels)[1], dtype=tf.float32)
            return metric.compute(labels, scores, mask=tf.ones_like(labels, dtype=tf.bool))[0]

    return compute


@cache
def _load_metrics() -> ModuleType:
    """Loads the library's `metrics_impl.py`, which imports only `utils.py` from the library.

    Raises:
        ImportError: the library is not installed, or is another version.
    """
    spec = importlib.util.find_spec(_LIBRARY)  # finds the package's folder without importing it
    if spec is None or spec.origin is None:
        raise ImportError(
            f"{_LIBRARY} is not installed; pip install tensorflow-ranking==0.5.3 --no-deps."
        )
    folder = Path(spec.origin).parent / "python"
    utils = ModuleType("dssm_tf.evaluation.tf_ranking.utils")
    _run_file(folder / "utils.py", utils)
    metrics_impl = ModuleType("dssm_tf.evaluation.tf_ranking.metrics_impl")
    metrics_impl.__dict__["utils"] = utils
    _run_file(folder / "metrics_impl.py", metrics_impl, without=_IMPORT_OF_UTILS)
    return metrics_impl


def _run_file(path: Path, module: ModuleType, without: str = "") -> None:
    """Runs a Python file in a module.

    Args:
        path: path of the file.
        module: receives the names that the file defines.
        without: a line to leave out.
    """
    source = path.read_text("utf-8")
    if without not in source:
        raise ImportError(f"{path} has no line {without!r}; install tensorflow-ranking==0.5.3.")
    module.__file__ = str(path)
    exec(compile(source.replace(without, ""), path, "exec"), module.__dict__)
