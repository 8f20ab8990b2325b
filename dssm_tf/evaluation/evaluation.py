"""Results of an evaluation or a benchmark: systems, their metrics per query, and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.intervals import mean_intervals
from dssm_tf.evaluation.metrics import Values, quality_metrics
from dssm_tf.evaluation.overlap import LogOverlap
from dssm_tf.evaluation.significance import Comparison
from dssm_tf.evaluation.task import RankingTask

UNKNOWN_NGRAMS = "unknown_ngrams"
"""Key of `SeedResult.facts`: fraction of the queries' letter n-grams that the vocabulary lacks."""

PRIOR_SUFFIX = "+prior"
"""Suffix of the name of a row that adds the titles' prior to another row."""

_UNKNOWN_WARNING_FRACTION = 1 / 3  # of the queries' letter n-grams


def vocabulary_facts(unknown_fraction: float) -> dict[str, Any]:
    """Entries for `SeedResult.facts`, with a warning if many letter n-grams are unknown.

    Args:
        unknown_fraction: fraction of the queries' letter n-grams that the vocabulary lacks.
    """
    notes = []
    if unknown_fraction >= _UNKNOWN_WARNING_FRACTION:
        notes.append(
            f"lacks {100 * unknown_fraction:.0f} % of the letter n-grams of the judged queries: "
            "was it trained on texts like these?"
        )
    return {UNKNOWN_NGRAMS: unknown_fraction, "notes": notes}


@dataclass(frozen=True)
class SeedResult:
    """One row's result for one seed.

    Attributes:
        seed: None for a system that is not random.
        values: one column per metric, one row per query; NaN for queries not in the means.
        run: the first titles of each query: `query`, `title`, `score`, `rank`. With up to 10,000
            queries, it is deep enough for every metric; see `evaluate.saved_ranks`. A large run is
            mapped from a temporary file.
        facts: costs, chosen parameters and notes; from a benchmark's `facts.json`.
    """

    seed: int | None
    values: pl.DataFrame
    run: pl.DataFrame
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    """A row of the table.

    Attributes:
        name: name of the system.
        kind: `system` or `run`; in a benchmark `baseline`, `tower`, `encoder`, `popularity`,
            `run` or `model`.
        seeds: one result per seed; empty if the system failed.
        error: why the system failed; if `seeds` is not empty, why the other seeds failed.
        sweep: key and value, for a row of a sweep.
        prior: whether the score includes the title's log-prior. Such rows are compared only with
            each other.
    """

    name: str
    kind: str
    seeds: list[SeedResult] = field(default_factory=list)
    error: str | None = None
    sweep: tuple[str, Any] | None = None
    prior: bool = False

    def values(self, metric: str) -> Values:
        """The mean over seeds per query, `(queries,)`, on which rows are tested."""
        mean: Values = np.mean([result.values[metric] for result in self.seeds], axis=0)
        return mean

    def cost(self, name: str) -> float | None:
        """The mean over seeds of a cost; None if no seed has it."""
        costs = [result.facts[name] for result in self.seeds if result.facts.get(name) is not None]
        return float(np.mean(costs)) if costs else None

    @property
    def notes(self) -> list[str]:
        """Remarks that reports print below the table."""
        return [note for result in self.seeds[:1] for note in result.facts.get("notes", ())]


@dataclass(frozen=True)
class Evaluation:
    """Systems measured on one task: the input of all tables, pages and files.

    Attributes:
        task: the queries, titles and grades.
        metrics: names, in table order; with `judged@10` if rankings can contain titles without a
            judgment.
        rows: all rows in table order, including failed ones.
        comparisons: paired tests of the rows' means over seeds.
        against: the systems that the superscript letters of a table refer to.
        in_log: `(queries,)`, whether the click log contains the query after normalization; None
            if no log is known.
        fold: `(queries,)`, the cross-validation fold, 0 or 1; None without cross-validation.
        settings: inputs, models, versions and options of the evaluation.
        judged_only: the same systems on judged titles only, if requested; see
            `evaluate.evaluate_judged_only`.
        overlaps: by row name, the overlap of the judgments with the training log of the system;
            without systems that learn from the click log of a benchmark, or from no clicks.
        log_overlap: the overlap of the judgments with the click log of a benchmark.
    """

    task: RankingTask
    metrics: tuple[str, ...]
    rows: Sequence[Row]
    comparisons: Sequence[Comparison]
    against: tuple[str, ...]
    in_log: NDArray[np.bool_] | None = None
    fold: NDArray[np.int64] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    judged_only: Evaluation | None = None
    overlaps: Mapping[str, LogOverlap] = field(default_factory=dict)
    log_overlap: LogOverlap | None = None

    @property
    def compared_metrics(self) -> tuple[str, ...]:
        """The metrics by which systems are compared, see `quality_metrics`."""
        return quality_metrics(self.metrics)

    @property
    def measured_rows(self) -> list[Row]:
        """Rows that have a result."""
        return [row for row in self.rows if row.seeds]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the rows that have a result, in table order."""
        return tuple(row.name for row in self.measured_rows)

    @cached_property
    def values(self) -> Mapping[str, Mapping[str, Values]]:
        """`values[system][metric]` is `(queries,)`, the mean over seeds; NaN without a value."""
        return {
            row.name: {metric: row.values(metric) for metric in self.metrics}
            for row in self.measured_rows
        }

    def summary(self, subset: str | None = None) -> pl.DataFrame:
        """The means over queries, one row per system and metric.

        Queries for which a metric is not defined are left out of its mean.

        Args:
            subset: a key of `query_subsets`; all queries if None.

        Returns:
            `system`, `metric`, `mean`, `low` and `high` (the 95 % interval over queries), `seeds`
            (the mean of each seed) and `spread` (their standard deviation; null with one seed).
        """
        mask, frames = self.query_subsets[subset] if subset else self.task.has_relevant, []
        for row in self.measured_rows:
            values = np.stack([result.values.to_numpy()[mask] for result in row.seeds])
            low, high = mean_intervals(values.mean(axis=0)).T
            seeds = np.nanmean(values, axis=1).T.tolist()
            columns = {"metric": self.metrics, "seeds": seeds, "low": low, "high": high}
            frames.append(pl.DataFrame(columns).with_columns(system=pl.lit(row.name)))
        seeds = pl.col("seeds").list
        return pl.concat(frames).with_columns(mean=seeds.mean(), spread=seeds.std())

    def mean(self, system: str, metric: str) -> float:
        """The mean over the queries that have a relevant title, and for which it is defined."""
        return float(np.nanmean(self.values[system][metric][self.task.has_relevant]))

    @property
    def runs(self) -> Mapping[str, pl.DataFrame]:
        """The run of each system's first seed, see `SeedResult`."""
        return {row.name: row.seeds[0].run for row in self.measured_rows}

    @property
    def measured_queries(self) -> int:
        """Number of queries that the means include."""
        return int(self.task.has_relevant.sum())

    @cached_property
    def new_queries(self) -> NDArray[np.bool_]:
        """`(queries,)`: included in the means, and known not to be in the log."""
        if self.in_log is None:
            return np.zeros_like(self.task.has_relevant)
        return self.task.has_relevant & ~self.in_log

    def marked(self, subset: str | None = None) -> frozenset[str]:
        """The rows that reports mark, because they were trained on judged queries.

        Their figures are too high for queries of users in general.

        Args:
            subset: a key of `query_subsets`. No row is marked in `new`.
        """
        if subset == "new":
            return frozenset()
        return frozenset(name for name, overlap in self.overlaps.items() if overlap.marked)

    @cached_property
    def query_subsets(self) -> Mapping[str, NDArray[np.bool_]]:
        """Masks of the queries that are in the log, `known`, and of the others, `new`.

        Empty unless both subsets contain queries.
        """
        subsets = {"known": self.task.has_relevant & ~self.new_queries, "new": self.new_queries}
        return subsets if all(mask.any() for mask in subsets.values()) else {}

    def top(self, system: str, query: int, depth: int = 10) -> pl.DataFrame:
        """The first titles of a system for a query.

        Args:
            system: name of the system.
            query: index of the query in `task.queries`.
            depth: maximum number of titles.

        Returns:
            `rank`, `doc_id`, `title`, `score` and `grade`, null for a title without a judgment.
        """
        run = self.runs[system].filter(pl.col("query") == query, pl.col("rank") <= depth)
        judged = self.task.judged
        return run.join(judged, on=["query", "title"], how="left", maintain_order="left").select(
            "rank",
            doc_id=pl.lit(pl.Series(self.task.doc_ids)).gather("title"),
            title=pl.lit(pl.Series(self.task.titles)).gather("title"),
            score="score",
            grade="grade",
        )
