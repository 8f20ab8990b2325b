"""Two-fold cross validation of parameters, as in the papers.

The queries are split in two folds. A setting reported on one fold is chosen on the other, so no
query's judgments affect the values measured on it. A final setting is chosen on all queries; it is
for deployment and never reported.

If the settings of the folds differ, a run has the rankings of all queries by each of them, in a
column `fold`: a hybrid chooses its weights for one fold by rankings of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import FOLDED

FINAL = 2
"""The setting to deploy, after those of folds 0 and 1."""


def folds(task: RankingTask) -> NDArray[np.int64]:
    """Halves the queries by the fingerprints of their normalised texts: `(queries,)`, 0 or 1.

    Queries that normalise to one text are in one fold. The queries that means count are split
    evenly; the others are in the first fold.
    """
    keys = [FOLDED.key(query) for query in task.queries]
    counted = {keys[row] for row in task.relevant["query"]}
    ordered = sorted(counted, key=lambda key: (fingerprint64(key), key))
    fold = {key: index % 2 for index, key in enumerate(ordered)}
    return np.array([fold.get(key, 0) for key in keys], np.int64)


def grid(search_space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of values; the last name varies fastest.

    >>> grid({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [
        dict(zip(search_space, values, strict=True)) for values in product(*search_space.values())
    ]


def choose(values: NDArray[np.float64], fold: NDArray[np.int64]) -> list[int]:
    """The best setting on fold 1, on fold 0, and on all queries.

    If means differ by rounding only, the first setting is the best.

    Args:
        values: a metric, `(settings, queries)`, NaN for queries that means leave out.
        fold: see `folds`.

    Returns:
        The settings for fold 0, for fold 1 and `FINAL`; empty if a fold has no query to choose by.
    """
    counted = ~np.isnan(values[0])
    masks = [counted & (fold == 1), counted & (fold == 0), counted]
    if not all(mask.any() for mask in masks):
        return []
    return [int(values[:, mask].mean(axis=1).round(9).argmax()) for mask in masks]


def describe_choice(chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The chosen settings, for `metrics.json`.

    Args:
        chosen: the settings of folds 0 and 1 and the final one; empty if nothing could be chosen.
    """
    if not chosen:
        return {"chosen": "nothing: fewer than two different queries have a relevant title"}
    halves = [{"reported_on": f"half {1 + number}", "values": chosen[number]} for number in (0, 1)]
    return {"chosen": halves, "final": chosen[FINAL]}


def by_fold(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Joins the runs of folds 0, 1 and the final setting, unless they are the same run."""
    if all(run is runs[0] for run in runs):
        return runs[0]
    return pl.concat(run.with_columns(fold=pl.lit(number)) for number, run in enumerate(runs))


def of_fold(run: pl.DataFrame, fold: NDArray[np.int64]) -> pl.DataFrame:
    """Each query ranked by the setting of a fold.

    Args:
        run: with or without a column `fold`.
        fold: `(queries,)`: each query's fold for reports, see `folds`, or `FINAL` for all.
    """
    if "fold" not in run.columns:
        return run
    fold_of_query = pl.lit(pl.Series(fold)).gather("query")
    return run.filter(pl.col("fold") == fold_of_query).drop("fold").sort("query", "rank")
