"""NDCG as TensorFlow Ranking computes it: the only file that knows the library.

The library is not maintained, and `import tensorflow_ranking` fails: it imports
`tf.estimator`, which TensorFlow 2.16 removed, and the Keras 2 parts of `tf.keras`.
Its metrics are in two files that need TensorFlow alone. `_load_metrics` runs
these two files in modules of our own. It adds nothing to `sys.modules` and
changes no environment variable, so the library itself imports, or fails to
import, as it would without us.

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
_CELLS = 1 << 20  # of one padded batch: 4 MiB a tensor
_DIGITS = 6


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
        for name, cutoff in cutoffs.items():
            found = np.concatenate([_ndcg(cutoff)(part) for part in parts])[:, 0]
            values[name][:] = np.where(labels.any(axis=1), found, np.nan)
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
    """Loads the library's `metrics_impl.py`, which imports its `utils.py` and nothing else of it.

    Raises:
        ImportError: the library is not installed, or is another version.
    """
    spec = importlib.util.find_spec(_LIBRARY)  # the package's folder; imports nothing
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
        path: of the file.
        module: gets the names that the file defines.
        without: a line that is left out.
    """
    source = path.read_text("utf-8")
    if without not in source:
        raise ImportError(f"{path} has no line {without!r}; install tensorflow-ranking==0.5.3.")
    module.__file__ = str(path)
    exec(compile(source.replace(without, ""), path, "exec"), module.__dict__)
