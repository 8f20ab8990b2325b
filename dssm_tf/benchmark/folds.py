"""Two-fold cross validation of free parameters, as the papers do it.

The queries are halved. What is reported on one fold was chosen on the other, so no query's
judgments take part in anything that is measured on it. Beside it stands a final choice by all
queries, which is to be deployed and never reported.

Where settings differ by fold, a run has the rankings of all queries by each of them, in a column
`fold`: a hybrid chooses its weights for one fold by rankings of the other.
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
"""Beside folds 0 and 1: the setting to deploy."""


def folds(task: RankingTask) -> NDArray[np.int64]:
    """Halves the queries by the fingerprints of their normalised texts: `(queries,)`, 0 or 1.

    Queries that normalise to one text are in one fold. The queries that means count are split
    evenly; the others are in the first fold.
    """
    keys = [FOLDED.key(query) for query in task.queries]
    counted = {keys[row] for row in task.relevant["query"]}
    ordered = sorted(counted, key=lambda key: (fingerprint64(key), key))
    fold = {key: place % 2 for place, key in enumerate(ordered)}
    return np.array([fold.get(key, 0) for key in keys], np.int64)


def grid(free: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of values, the last name's changing first.

    >>> grid({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [dict(zip(free, values, strict=True)) for values in product(*free.values())]


def choose(values: NDArray[np.float64], fold: NDArray[np.int64]) -> list[int]:
    """For folds 0 and 1 the best setting on the other one; last, the best on all queries.

    Of settings whose means differ by rounding only, the first.

    Args:
        values: a metric, `(settings, queries)`, NaN for queries that means leave out.
        fold: see `folds`.

    Returns:
        Three settings; none where a fold has no query to choose by.
    """
    counted = ~np.isnan(values[0])
    parts = [counted & (fold == 1), counted & (fold == 0), counted]
    if not all(part.any() for part in parts):
        return []
    return [int(values[:, part].mean(axis=1).round(9).argmax()) for part in parts]


def described(chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was chosen, for `metrics.json`.

    Args:
        chosen: the settings of folds 0 and 1 and the final one; empty if nothing could be chosen.
    """
    if not chosen:
        return {"chosen": "nothing: fewer than two different queries have a relevant title"}
    halves = [{"reported_on": f"half {1 + number}", "values": chosen[number]} for number in (0, 1)]
    return {"chosen": halves, "final": chosen[FINAL]}


def by_fold(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One run of those of folds 0, 1 and the final one; as it is where they are the same."""
    if all(run is runs[0] for run in runs):
        return runs[0]
    return pl.concat(run.with_columns(fold=pl.lit(number)) for number, run in enumerate(runs))


def of_fold(run: pl.DataFrame, fold: NDArray[np.int64]) -> pl.DataFrame:
    """Each query ranked by the setting of a fold.

    Args:
        run: perhaps with a column `fold`.
        fold: `(queries,)`: its own for what is reported, see `folds`, or one for all.
    """
    if "fold" not in run.columns:
        return run
    own = pl.lit(pl.Series(fold)).gather("query")
    return run.filter(pl.col("fold") == own).drop("fold").sort("query", "rank")
