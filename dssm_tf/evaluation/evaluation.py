"""What an evaluation or a benchmark found: rows of systems, their values a query, their tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.evaluation.description import first_titles
from dssm_tf.evaluation.intervals import mean_intervals
from dssm_tf.evaluation.metrics import Values
from dssm_tf.evaluation.significance import SIGNIFICANT, Comparison
from dssm_tf.evaluation.task import RankingTask

UNKNOWN = "unknown_trigrams"
"""In `SeedResult.about`, the share of the queries' letter trigrams that a model does not know."""

PRIOR_SUFFIX = "+prior"
"""How the name of a row ends that adds the titles' prior to another."""

_MANY_UNKNOWN = 1 / 3  # of the letter trigrams: from here on it is said

COST_NAMES = ("training_seconds", "microseconds_per_query", "megabytes")
"""What may be known of a row's cost: names in `SeedResult.about`."""


def about_vocabulary(unknown: float) -> dict[str, Any]:
    """Of the share of the queries' letter trigrams that a model does not know: for `about`."""
    note = (
        f"lacks {100 * unknown:.0f} % of the letter trigrams of the judged queries: was it "
        "trained on texts like these?"
    )
    return {UNKNOWN: unknown, "notes": [note] if unknown >= _MANY_UNKNOWN else []}


class Part(NamedTuple):
    """Some of the queries, or all of them with other weights: what means are taken over.

    Attributes:
        name: `all`; `known` and `new` to the log; `traffic`.
        weights: `(queries,)`, 0 for a query that does not count.
    """

    name: str
    weights: NDArray[np.float64]

    @property
    def queries(self) -> int:
        """How many count."""
        return int((self.weights > 0).sum())


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
        notes = [note for one in self.seeds[:1] for note in one.about.get("notes", ())]
        if any(one.about.get("resumed") for one in self.seeds):
            notes.append("was interrupted; its training time is that since the last start")
        return notes


@dataclass(frozen=True)
class Evaluation:
    """Systems measured on one task: everything that tables, pages and files are made from.

    Attributes:
        task: the queries, titles and grades.
        metrics: names, in table order.
        rows: all of them, failed ones too, in table order.
        comparisons: tests of the rows' means over seeds, two by two.
        against: the systems that raised letters are about.
        seen: `(queries,)`, whether the click log holds the query (after normalisation); None
            where no log is known.
        half: `(queries,)`, the half of the cross validation; None where there was none.
        traffic: `(queries,)`, clicks; None where no log is known.
        settings: how it was run: inputs, models, versions; what a benchmark was told.
    """

    task: RankingTask
    metrics: tuple[str, ...]
    rows: Sequence[Row]
    comparisons: Sequence[Comparison]
    against: tuple[str, ...]
    seen: NDArray[np.bool_] | None = None
    half: NDArray[np.int64] | None = None
    traffic: NDArray[np.float64] | None = None
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

    def summary(self, part: Part | None = None) -> pl.DataFrame:
        """The means over queries, a row for each system and metric.

        Args:
            part: which queries, how heavily; all of them alike if None.

        Returns:
            `system`, `metric`, `mean`, `low` and `high` (the 95 % interval over queries), `seeds`
            (the mean of each seed) and `spread` (their standard deviation; null for one seed).
        """
        weights = (part or self.whole).weights
        kept, found = weights > 0, []
        for row in self.measured_rows:
            values = np.stack([one.values.to_numpy() for one in row.seeds])
            seeds = np.average(values[:, kept], axis=1, weights=weights[kept]).T
            low, high = mean_intervals(values.mean(axis=0), weights).T
            columns = {"metric": self.metrics, "seeds": seeds.tolist(), "low": low, "high": high}
            found.append(pl.DataFrame(columns).with_columns(system=pl.lit(row.name)))
        seeds = pl.col("seeds").list
        return pl.concat(found).with_columns(mean=seeds.mean(), spread=seeds.std())

    def mean(self, system: str, metric: str) -> float:
        """Mean over the queries that have a relevant title."""
        return float(self.values[system][metric][self.task.counted].mean())

    @property
    def runs(self) -> Mapping[str, pl.DataFrame]:
        """By system, the run of its first seed, see `SeedResult`."""
        return {row.name: row.seeds[0].run for row in self.measured_rows}

    @cached_property
    def first_titles(self) -> Mapping[str, Sequence[str]]:
        """By system, the label of each counted query's first title, see `first_titles`."""
        return first_titles(self.task, self.runs)

    @property
    def measured_queries(self) -> int:
        """Queries that the means count."""
        return self.whole.queries

    @cached_property
    def new_queries(self) -> NDArray[np.bool_]:
        """`(queries,)`: counted by the means, and known not to be in the log."""
        return self.task.counted & (False if self.seen is None else ~self.seen)

    @cached_property
    def whole(self) -> Part:
        """All queries that the means count, alike."""
        return Part("all", self.task.counted.astype(float))

    @property
    def parts(self) -> list[Part]:
        """What is shown beside the means over all queries, where it differs from them."""
        counted, new = self.task.counted, self.new_queries
        weights = {
            "known": counted & ~new,
            "new": new,
            "traffic": counted * (0.0 if self.traffic is None else self.traffic),
        }
        return [
            Part(name, one.astype(float))
            for name, one in weights.items()
            if len({*one[counted]}) > 1
        ]

    @property
    def costed(self) -> bool:
        """Whether anything is known of what the systems cost."""
        return any(row.cost(name) is not None for row in self.rows for name in COST_NAMES)

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

    def beaten(self, system: str, metric: str) -> list[str]:
        """Systems of `against` that this one beats with an adjusted p below 0.05."""
        won = {
            worse
            for test in self.comparisons
            if test.metric == metric and test.p_adjusted < SIGNIFICANT
            for better, worse in [(test.a, test.b) if test.difference > 0 else (test.b, test.a)]
            if better == system
        }
        return [name for name in self.against if name in won]

    def reference(self, system: str) -> str | None:
        """The first of `against` to compare a system with: both with the prior, or neither."""
        prior = {row.name: row.prior for row in self.rows}
        alike = (name for name in self.against if prior[name] == prior[system])
        return next((name for name in alike if name != system), None)

    @property
    def sweeps(self) -> Mapping[str, Sequence[tuple[str, Row]]]:
        """By what was swept, the values and their rows."""
        found: dict[str, list[tuple[str, Row]]] = {}
        for row in self.measured_rows:
            if row.sweep:
                target = row.name.split("=")[0] + PRIOR_SUFFIX * row.prior
                found.setdefault(target, []).append((str(row.sweep[1]), row))
        return found

    @property
    def deciding_metric(self) -> str:
        """The metric that a report opens with: NDCG@10 where it was measured."""
        return "ndcg@10" if "ndcg@10" in self.metrics else self.metrics[0]
