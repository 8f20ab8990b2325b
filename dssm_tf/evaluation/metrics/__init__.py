"""Ranking metrics over frames, one built-in metric per file.

A built-in metric is a Polars expression over the relevant titles of one query, listed in
`BUILT_IN_METRICS`. A title is relevant if its grade is above 0. Reports contain the NDCG of
`tf_ranking`. Training validates with the NDCG of this package, which needs no TensorFlow.

Two metrics need more than the relevant titles: `judged@k` needs all ranked titles, and
`concordance` the scores of all judged titles.

A `Metric` is a custom metric, for `dssm_tf.evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.metrics import (
    average_precision,
    expected_reciprocal_rank,
    judged,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from dssm_tf.evaluation.metrics.built_in_metric import BuiltInMetric

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", "mrr@10", "recall@10", "map")
"""The default metrics of an evaluation, in table order."""

CONCORDANCE = "concordance"
"""A metric for rankings of only the judged titles; see `metrics.concordance`."""

Values = NDArray[np.float64]

BUILT_IN_METRICS = {
    "ndcg": ndcg.NDCG,
    "mrr": reciprocal_rank.RECIPROCAL_RANK,
    "recall": recall.RECALL,
    "precision": precision.PRECISION,
    "map": average_precision.AVERAGE_PRECISION,
    "err": expected_reciprocal_rank.EXPECTED_RECIPROCAL_RANK,
}
"""Built-in metrics by their names without a cut-off. Add new ones here."""

_JUDGED = "judged"
_NAMED_METRICS = {**BUILT_IN_METRICS, _JUDGED: judged.JUDGED}  # users can choose these


@dataclass(frozen=True)
class Metric:
    """A custom metric.

    Args:
        name: heading of its column in tables and files.
        compute: a function of the ranks and the grades of a query's relevant titles, both float64
            `(titles,)`. It returns the query's value; higher is better. Ranks start at 1 and are
            infinite for titles that are not ranked; grades are above 0.

    >>> success = Metric("success@5", lambda ranks, grades: float(ranks.min() <= 5))
    >>> success.compute(np.array([7.0, 3.0]), np.array([1.0, 2.0]))
    1.0
    """

    name: str
    compute: Callable[[Values, Values], float]


def metric_label(metric: str) -> str:
    """Heading of a metric's column in tables; the name itself for a custom metric.

    >>> [metric_label(name) for name in ("ndcg@10", "judged@10", "map", "success@5")]
    ['NDCG@10', 'Judged@10', 'MAP', 'success@5']
    """
    if metric == CONCORDANCE:
        return "Concordance"
    kind, at, cutoff = metric.partition("@")
    return _NAMED_METRICS[kind].label + at + cutoff if kind in _NAMED_METRICS else metric


def is_judgment_rate(metric: str) -> bool:
    """Whether a metric is `judged@k`, which does not measure the quality of a ranking."""
    return metric.partition("@")[0] == _JUDGED


def quality_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The metrics by which systems are compared: all but `judged@k`, unless there are no others.

    >>> quality_metrics(["ndcg@10", "judged@10"]), quality_metrics(["judged@10"])
    (('ndcg@10',), ('judged@10',))
    """
    return tuple(name for name in names if not is_judgment_rate(name)) or tuple(names)


def metric_names(metrics: Sequence[str | Metric]) -> tuple[str, ...]:
    """Returns the names of metrics after checking them.

    Raises:
        UserError: a name is not that of a built-in metric, a custom metric has the name of a
            built-in one, or two metrics have the same name.
    """
    names = tuple(metric if isinstance(metric, str) else metric.name for metric in metrics)
    for metric, name in zip(metrics, names, strict=True):
        if isinstance(metric, str):
            _parse(metric, _NAMED_METRICS)
        elif name.partition("@")[0] in _NAMED_METRICS:
            raise UserError(f"metric {name!r} is built in; give your metric another name.")
        if names.count(name) > 1:
            raise UserError(f"two metrics are called {name!r}; rename or remove one.")
    return names


def parse_metric(name: str) -> tuple[str, int]:
    """Splits a metric's name into a key of `BUILT_IN_METRICS` and its cut-off.

    >>> parse_metric("ndcg@10"), parse_metric("map")
    (('ndcg', 10), ('map', 1000))

    Raises:
        UserError: there is no such metric, or it needs a cut-off.
    """
    return _parse(name, BUILT_IN_METRICS)


def metric_cutoff(name: str) -> int:
    """The cut-off of a metric that users can choose, `judged@k` included.

    >>> metric_cutoff("judged@10"), metric_cutoff("map")
    (10, 1000)
    """
    return _parse(name, _NAMED_METRICS)[1]


def _parse(name: str, known: Mapping[str, BuiltInMetric]) -> tuple[str, int]:
    kind, at, cutoff = name.partition("@")
    if kind in known:
        if not at and (default := known[kind].default_cutoff):
            return kind, default
        if cutoff.isdecimal() and int(cutoff) > 0:
            return kind, int(cutoff)
    raise UserError(
        f"metric {name!r}: expected one of {', '.join(known)} with a cut-off, as in ndcg@10, or "
        "map."
    )


def per_query(
    ranks: pl.DataFrame, query_count: int, names: Sequence[str] = METRICS
) -> dict[str, Values]:
    """Computes built-in metrics for every query.

    Args:
        ranks: the relevant titles: `query` from 0; `rank` from 1, null or NaN if the title is not
            ranked; `grade` above 0.
        query_count: number of queries, including those without a relevant title.
        names: see `parse_metric`.

    Returns:
        `(queries,)` float64 per metric, NaN for queries without a relevant title.
    """
    parsed = {name: parse_metric(name) for name in names}
    relevant = ranks.with_columns(highest_grade=pl.col("grade").max())
    computed = relevant.group_by("query").agg(
        BUILT_IN_METRICS[kind].compute(cutoff).alias(name)
        for name, (kind, cutoff) in parsed.items()
    )
    values = {name: np.full(query_count, np.nan) for name in names}
    for name, row in values.items():
        row[computed["query"].to_numpy()] = computed[name].to_numpy()
    return values


def judged_per_query(
    run: pl.DataFrame, judgments: pl.DataFrame, query_count: int, name: str
) -> Values:
    """Computes a metric `judged@k` for every query.

    Args:
        run: the ranked titles: `query` from 0, `title`, and `rank` from 1. Titles without a
            judgment may be missing, except the last title of each query.
        judgments: `query`, `title` and `grade` of all judged titles, including grade 0.
        query_count: number of queries.
        name: the metric.

    Returns:
        `(queries,)` from 0 to 1; 0 for queries without a ranked title.
    """
    _, cutoff = _parse(name, _NAMED_METRICS)
    # The rank of a query's last title is the number of its ranked titles.
    is_last = pl.col("rank") == pl.col("rank").max().over("query")
    judged_titles = run.filter(~is_last).join(judgments, on=["query", "title"], how="semi")
    titles = pl.concat([judged_titles, run.filter(is_last)])
    titles = titles.join(judgments, on=["query", "title"], how="left")
    computed = titles.group_by("query").agg(judged.judged(cutoff).alias(name))
    values = np.zeros(query_count)
    values[computed["query"].to_numpy()] = computed[name].to_numpy()
    return values


def custom_metric_per_query(metric: Metric, ranks: pl.DataFrame, query_count: int) -> Values:
    """Computes a custom metric for every query; arguments and result as in `per_query`.

    Raises:
        UserError: a value is not finite.
    """
    values = np.full(query_count, np.nan)
    numbers = ranks.select("query", pl.col("rank", "grade").cast(pl.Float64))
    not_ranked = pl.col("rank").fill_nan(None).fill_null(np.inf)
    for (query,), rows in numbers.with_columns(rank=not_ranked).group_by("query"):
        value = float(metric.compute(rows["rank"].to_numpy(), rows["grade"].to_numpy()))
        if not np.isfinite(value):
            raise UserError(
                f"metric {metric.name!r} is {value} for the ranks {rows['rank'].to_list()} of a "
                "query's relevant titles; expected a finite number."
            )
        values[int(str(query))] = value
    return values
