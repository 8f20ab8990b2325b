"""Two-fold cross-validation of parameters, as in the papers.

The queries are split into two folds. The setting reported on one fold is chosen on the other, so no
query's judgments affect the values measured on it. A final setting is chosen on all queries; it is
for deployment and never reported.

If the settings of the folds differ, a run contains the rankings of all queries by each setting, in
a column `fold`. A row with the prior needs them: its weight for one fold is chosen on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.runs import Rankings
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.stable_hash import fingerprint64

FINAL = 2
"""Index of the setting to deploy, after those of folds 0 and 1."""


def assign_folds(task: RankingTask) -> NDArray[np.int64]:
    """Splits the queries into halves by a hash of their normalized texts: `(queries,)`, 0 or 1.

    Queries with the same normalized text are in the same fold. The queries with a relevant title
    are split evenly; the others are in fold 0.
    """
    keys = [FOLDED.key(query) for query in task.queries]
    keys_with_relevant = {keys[row] for row in task.relevant["query"]}
    ordered = sorted(keys_with_relevant, key=lambda key: (fingerprint64(key), key))
    fold_by_key = {key: index % 2 for index, key in enumerate(ordered)}
    return np.array([fold_by_key.get(key, 0) for key in keys], np.int64)


def grid(search_space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of values; the last name varies fastest.

    >>> grid({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [
        dict(zip(search_space, values, strict=True)) for values in product(*search_space.values())
    ]


def choose(values: NDArray[np.float64], fold: NDArray[np.int64]) -> list[int]:
    """Chooses the setting to report on each fold by the queries of the other, and a final one.

    If means differ only by rounding, the first setting wins.

    Args:
        values: a metric, `(settings, queries)`, NaN for queries not in the means.
        fold: `(queries,)`, see `assign_folds`.

    Returns:
        Indices of the settings for fold 0, for fold 1 and `FINAL`; empty if a fold has no query
        with a value.
    """
    has_value = ~np.isnan(values[0])
    masks = [has_value & (fold == 1), has_value & (fold == 0), has_value]
    if not all(mask.any() for mask in masks):
        return []
    return [int(values[:, mask].mean(axis=1).round(9).argmax()) for mask in masks]


def describe_choice(chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The chosen settings, for `metrics.json`.

    Args:
        chosen: the settings for folds 0 and 1 and the final one; empty if none could be chosen.
    """
    if not chosen:
        return {"chosen": "nothing: fewer than two different queries have a relevant title"}
    choices = [{"reported_on": f"fold {1 + fold}", "values": chosen[fold]} for fold in (0, 1)]
    return {"chosen": choices, "final": chosen[FINAL]}


def join_folds(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Joins the runs of folds 0, 1 and the final setting, unless all are the same object."""
    if all(run is runs[0] for run in runs):
        return runs[0]
    return pl.concat(run.with_columns(fold=pl.lit(fold)) for fold, run in enumerate(runs))


def join_rankings(rankings: Sequence[Rankings]) -> Rankings:
    """Joins both runs of the rankings of folds 0, 1 and the final setting, see `join_folds`."""
    return Rankings(
        join_folds([of_fold.run for of_fold in rankings]),
        join_folds([of_fold.condensed for of_fold in rankings]),
    )


def select_fold(run: pl.DataFrame, fold: NDArray[np.int64]) -> pl.DataFrame:
    """Selects for each query the ranking by the setting of one fold.

    Args:
        run: a run, with or without a column `fold`.
        fold: `(queries,)`: each query's fold, see `assign_folds`, or `FINAL` for all queries.
    """
    if "fold" not in run.columns:
        return run
    fold_of_query = pl.lit(pl.Series(fold)).gather("query")
    return run.filter(pl.col("fold") == fold_of_query).drop("fold").sort("query", "rank")
