"""What an evaluation or a benchmark found: rows of systems, their values a query, their tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.intervals import mean_intervals
from dssm_tf.evaluation.metrics import Values
from dssm_tf.evaluation.significance import Comparison
from dssm_tf.evaluation.task import RankingTask

UNKNOWN = "unknown_trigrams"
"""In `SeedResult.about`, the share of the queries' letter trigrams that a model does not know."""

PRIOR_SUFFIX = "+prior"
"""How the name of a row ends that adds the titles' prior to another."""

_MANY_UNKNOWN = 1 / 3  # of the letter trigrams: from here on it is said


def about_vocabulary(unknown: float) -> dict[str, Any]:
    """Of the share of the queries' letter trigrams that a model does not know: for `about`."""
    note = (
        f"lacks {100 * unknown:.0f} % of the letter trigrams of the judged queries: was it "
        "trained on texts like these?"
    )
    return {UNKNOWN: unknown, "notes": [note] if unknown >= _MANY_UNKNOWN else []}


@dataclass(frozen=True)
class SeedResult:
    """One row's result for one seed.

    Attributes:
        seed: None for a system that is not random.
        values: a column a metric, a row a query, NaN for queries that means leave out.
        run: the first 100 titles of each query: `query`, `title`, `score`, `rank`.
        about: cost and what was chosen, as a benchmark's worker tells it; empty elsewhere.
    """

    seed: int | None
    values: pl.DataFrame
    run: pl.DataFrame
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    """A row of the table.

    Attributes:
        name: of the system.
        kind: `system` or `run`; in a benchmark `baseline`, `tower`, `encoder`, `popularity`,
            `run`, `model` or `hybrid`.
        seeds: results, one a seed; empty if the system failed.
        error: why it failed; with some `seeds`, why the others did.
        sweep: key and value, for a row of a sweep.
        prior: whether the score holds the title's share of clicks, so that the row is compared
            with such rows only.
    """

    name: str
    kind: str
    seeds: list[SeedResult] = field(default_factory=list)
    error: str | None = None
    sweep: tuple[str, Any] | None = None
    prior: bool = False

    def values(self, metric: str) -> Values:
        """The mean over seeds, query by query: what enters the tests."""
        mean: Values = np.mean([one.values[metric] for one in self.seeds], axis=0)
        return mean

    def cost(self, name: str) -> float | None:
        """The mean over seeds of a cost; None where it is not known."""
        found = [one.about[name] for one in self.seeds if one.about.get(name) is not None]
        return float(np.mean(found)) if found else None

    @property
    def notes(self) -> list[str]:
        """What a reader of the row has to know."""
        return [note for one in self.seeds[:1] for note in one.about.get("notes", ())]


@dataclass(frozen=True)
class Evaluation:
    """Systems measured on one task: everything that tables, pages and files are made from.

    Attributes:
        task: the queries, titles and grades.
        metrics: names, in table order.
        rows: all of them, failed ones too, in table order.
        comparisons: tests of the rows' means over seeds, two by two.
        against: the systems that raised letters are about.
        in_log: `(queries,)`, whether the click log holds the query (after normalisation); None
            where no log is known.
        fold: `(queries,)`, the half of the cross validation; None where there was none.
        settings: how it was run: inputs, models, versions; what a benchmark was told.
    """

    task: RankingTask
    metrics: tuple[str, ...]
    rows: Sequence[Row]
    comparisons: Sequence[Comparison]
    against: tuple[str, ...]
    in_log: NDArray[np.bool_] | None = None
    fold: NDArray[np.int64] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

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
        """`values[system][metric]` is `(queries,)`, the mean over seeds; NaN where left out."""
        return {
            row.name: {metric: row.values(metric) for metric in self.metrics}
            for row in self.measured_rows
        }

    def summary(self, part: str | None = None) -> pl.DataFrame:
        """The means over queries, a row for each system and metric.

        Args:
            part: a key of `query_subsets`; all queries if None.

        Returns:
            `system`, `metric`, `mean`, `low` and `high` (the 95 % interval over queries), `seeds`
            (the mean of each seed) and `spread` (their standard deviation; null for one seed).
        """
        kept, found = self.query_subsets[part] if part else self.task.has_relevant, []
        for row in self.measured_rows:
            values = np.stack([one.values.to_numpy()[kept] for one in row.seeds])
            low, high = mean_intervals(values.mean(axis=0)).T
            seeds = values.mean(axis=1).T.tolist()
            columns = {"metric": self.metrics, "seeds": seeds, "low": low, "high": high}
            found.append(pl.DataFrame(columns).with_columns(system=pl.lit(row.name)))
        seeds = pl.col("seeds").list
        return pl.concat(found).with_columns(mean=seeds.mean(), spread=seeds.std())

    def mean(self, system: str, metric: str) -> float:
        """Mean over the queries that have a relevant title."""
        return float(self.values[system][metric][self.task.has_relevant].mean())

    @property
    def runs(self) -> Mapping[str, pl.DataFrame]:
        """By system, the run of its first seed, see `SeedResult`."""
        return {row.name: row.seeds[0].run for row in self.measured_rows}

    @property
    def measured_queries(self) -> int:
        """Queries that the means count."""
        return int(self.task.has_relevant.sum())

    @cached_property
    def new_queries(self) -> NDArray[np.bool_]:
        """`(queries,)`: counted by the means, and known not to be in the log."""
        if self.in_log is None:
            return np.zeros_like(self.task.has_relevant)
        return self.task.has_relevant & ~self.in_log

    @cached_property
    def query_subsets(self) -> Mapping[str, NDArray[np.bool_]]:
        """Queries that the log holds, `known`, and others, `new`; empty if they are all alike."""
        parts = {"known": self.task.has_relevant & ~self.new_queries, "new": self.new_queries}
        return parts if all(one.any() for one in parts.values()) else {}

    def top(self, system: str, query: int, depth: int = 10) -> pl.DataFrame:
        """The first titles of a system for a query, by the query's place in `task.queries`.

        Returns:
            `rank`, `doc_id`, `title`, `score` and `grade`, null for a title that nobody judged.
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
