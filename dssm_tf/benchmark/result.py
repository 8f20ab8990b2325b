"""What a benchmark found: rows, seeds, tests, descriptions; as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.benchmark.description import Description
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.evaluation.evaluation import Evaluation, Ranking, file_names
from dssm_tf.tables.judgments import write_qrels, write_run

Values = NDArray[np.float64]


@dataclass
class SeedResult:
    """One row's result for one seed.

    Attributes:
        seed: None for a system that is not random.
        values: by metric, `(queries,)`, NaN for queries that means leave out.
        rankings: the top of each query's ranking.
        about: cost and what was chosen, see `worker`.
    """

    seed: int | None
    values: Mapping[str, Values]
    rankings: Sequence[Ranking]
    about: Mapping[str, Any]


@dataclass
class Row:
    """A row of the table.

    Attributes:
        name: of the system.
        kind: `baseline`, `tower`, `popularity`, `run`, `embeddings` or `hybrid`.
        seeds: results, one a seed; empty if the system failed.
        error: why it failed; with some `seeds`, why the others did.
        sweep: key and value, for a row of a sweep.
    """

    name: str
    kind: str
    seeds: list[SeedResult] = field(default_factory=list)
    error: str | None = None
    sweep: tuple[str, Any] | None = None

    def values(self, metric: str) -> Values:
        """The mean over seeds, query by query: what enters the tests."""
        mean: Values = np.mean([one.values[metric] for one in self.seeds], axis=0)
        return mean

    def means(self, metric: str, queries: NDArray[np.bool_] | None = None) -> list[float]:
        """Means over queries, one a seed."""
        chosen = slice(None) if queries is None else queries
        return [float(np.nanmean(one.values[metric][chosen])) for one in self.seeds]

    def cost(self, name: str) -> float | None:
        """The mean over seeds of a cost; None where it is not known."""
        found = [one.about[name] for one in self.seeds if one.about.get(name) is not None]
        return float(np.mean(found)) if found else None

    @property
    def notes(self) -> list[str]:
        """What a reader of the row has to know."""
        notes = [note for one in self.seeds[:1] for note in one.about.get("notes", ())]
        if any(one.about.get("resumed") for one in self.seeds):
            notes.append("was interrupted; its training time is that of the last part")
        return notes


def spread(means: Sequence[float]) -> float | None:
    """Standard deviation over seeds, None for fewer than two."""
    return float(np.std(means, ddof=1)) if len(means) > 1 else None


@dataclass(frozen=True)
class BenchmarkResult:
    """Everything a table or a report is drawn from.

    Attributes:
        evaluation: of the rows that have a result: values are means over seeds, rankings are
            the first seed's, comparisons are those of the table.
        rows: all of them, failed ones too, in table order.
        against: the systems that superscripts are about.
        seen: `(queries,)`, whether the log holds the query (after normalisation).
        half: `(queries,)`, the half of the cross validation.
        description: lengths of texts, grades of first titles.
        settings: how the benchmark was run.
    """

    evaluation: Evaluation
    rows: Sequence[Row]
    against: tuple[str, ...]
    seen: NDArray[np.bool_]
    half: NDArray[np.int64]
    description: Description
    settings: Mapping[str, Any]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names, in table order."""
        return self.evaluation.metrics

    @property
    def measured_rows(self) -> list[Row]:
        """Rows that have a result."""
        return [row for row in self.rows if row.seeds]

    def new_queries(self) -> NDArray[np.bool_]:
        """`(queries,)`: counted by the means, and not in the log."""
        counted = np.ones(len(self.seen), dtype=bool)
        counted[self.evaluation.task.left_out()] = False
        return counted & ~self.seen

    @property
    def splits_by_seen(self) -> bool:
        """Whether some of the counted queries are new to the log and some are not."""
        new = int(self.new_queries().sum())
        return 0 < new < self.evaluation.measured_queries

    def protocol(self) -> list[str]:
        """What was done, in sentences."""
        tests = len(self.evaluation.comparisons)
        seeds = max((len(row.seeds) for row in self.rows), default=0)
        sentences = self.evaluation.ranking_protocol()
        new = int(self.new_queries().sum())
        sentences.append(
            f"{new:,} of the {self.evaluation.measured_queries:,} queries are not in the click log."
        )
        wordless = self.description.queries_without_words
        if wordless:
            sentences.append(
                f"{wordless:,} {'query has' if wordless == 1 else 'queries have'} no word after "
                "normalisation; no system can tell titles apart for them but by popularity, "
                "and they count."
            )
        if seeds > 1:
            sentences.append(
                f"Random systems: mean ± standard deviation over up to {seeds} seeds; tests use "
                "each query's mean over seeds; run files, first titles and examples are of the "
                "first seed, further seeds' runs are beside it."
            )
        if any(isinstance(s.about.get("chosen"), list) for row in self.rows for s in row.seeds):
            sentences.append(
                f"Free parameters: 2-fold cross validation by {self.settings['tune']}, chosen on "
                "one half of the queries and reported on the other, the halves joined."
            )
        if tests:
            sentences.append(
                "Raised letters: significantly better than "
                + ", ".join(f"{self.mark(name)} {name}" for name in self.against)
                + f" (paired t-test, p < 0.05 after Holm's correction over all {tests:,} tests "
                "of the table; 95 % bootstrap intervals and a randomisation test are in "
                "report.html and results.json)."
            )
        jobs = self.settings["jobs"]
        beside = f"up to {jobs} systems side by side" if jobs > 1 else "one system at a time"
        sentences.append(
            "Texts/s: queries and titles a second from raw text to scores, in one ranking of the "
            f"task; measured with {beside}."
        )
        return sentences

    def mark(self, system: str) -> str:
        """The raised letter of a system in `against`, empty for others."""
        if system not in self.against:
            return ""
        place = self.against.index(system)
        return _LETTERS[place] if place < len(_LETTERS) else f"({place + 1})"

    def beaten(self, system: str, metric: str) -> list[str]:
        """The systems of `against` that a row beats significantly."""
        return [s for s in self.against if s in self.evaluation.beaten(system, metric)]

    def row_to_json(self, row: Row) -> dict[str, Any]:
        """A row of `results.json`."""
        new = self.new_queries()

        def summary(queries: NDArray[np.bool_] | None) -> dict[str, Any]:
            found = {}
            for metric in self.metrics:
                means = row.means(metric, queries)
                found[metric] = {
                    "mean": float(np.mean(means)),
                    "spread": spread(means),
                    "seeds": means,
                }
            return found

        entry: dict[str, Any] = {"kind": row.kind, "error": row.error}
        if row.sweep:
            entry["sweep"] = {"key": row.sweep[0], "value": row.sweep[1]}
        if row.seeds:
            entry |= {
                "metrics": summary(None),
                "metrics_of_new_queries": summary(new) if new.any() else None,
                "seeds": [one.seed for one in row.seeds],
                **{name: row.cost(name) for name in COSTS},
                "notes": row.notes,
                "about": [dict(one.about) for one in row.seeds],
                "top_1_grades": self.description.top_1[row.name],
            }
        return entry

    def to_json(self) -> dict[str, Any]:
        """What `results.json` holds."""
        return {
            "format": 1,
            "settings": dict(self.settings),
            "protocol": self.protocol(),
            "queries": {
                "measured": self.evaluation.measured_queries,
                "left_out": len(self.evaluation.task.left_out()),
                "new": int(self.new_queries().sum()),
            },
            "metrics": list(self.metrics),
            "against": list(self.against),
            "systems": {row.name: self.row_to_json(row) for row in self.rows},
            "tests": [
                {**test._asdict(), "ci95": list(test.ci95)} for test in self.evaluation.comparisons
            ],
            **self.description.to_json(),
        }

    def metrics_json(self) -> dict[str, Any]:
        """What `metrics.json` holds: as that of `dssm evaluate`, with spread over seeds."""
        found = self.evaluation.to_json()
        for row in self.measured_rows:
            found["systems"][row.name] |= {
                "seeds": len(row.seeds),
                **{f"{metric} spread": spread(row.means(metric)) for metric in self.metrics},
                **{name: row.cost(name) for name in COSTS},
            }
        return found

    def per_query_json(self) -> dict[str, Any]:
        """What `per_query.json` holds: one number a query, in the order of `query_ids`."""
        task = self.evaluation.task

        def numbers(values: Values) -> list[float | None]:
            return [None if np.isnan(value) else float(value) for value in values]

        return {
            "query_ids": list(task.query_ids),
            "queries": list(task.queries),
            "in_log": self.seen.tolist(),
            "half": [int(half) + 1 for half in self.half],
            "systems": {
                row.name: {
                    "mean": {metric: numbers(row.values(metric)) for metric in self.metrics},
                    "seeds": [
                        {metric: numbers(one.values[metric]) for metric in self.metrics}
                        for one in row.seeds
                    ],
                }
                for row in self.measured_rows
            },
        }

    def write(self, out: Path) -> None:
        """Writes the JSON files, `qrels.trec` and `runs/`; replaces those of an earlier run."""
        for name, content in (
            ("metrics.json", self.metrics_json()),
            ("results.json", self.to_json()),
            ("per_query.json", self.per_query_json()),
        ):
            with atomic_write(out / name) as file:
                indent = None if name == "per_query.json" else 2
                json.dump(content, file, indent=indent, ensure_ascii=False, allow_nan=False)
                file.write("\n")
        write_qrels(out / "qrels.trec", self.evaluation.qrels())
        rows = self.measured_rows
        with atomic_directory(out / "runs", replace=True) as folder:
            for row, stem in zip(rows, file_names([row.name for row in rows]), strict=True):
                for number, one in enumerate(row.seeds):
                    name = stem if number == 0 else f"{stem}.seed{one.seed}"
                    evaluation = replace(self.evaluation, rankings={row.name: one.rankings})
                    write_run(folder / f"{name}.trec", evaluation.run(row.name), tag=name)


COSTS = ("training_seconds", "parameters", "bytes", "texts_per_second")
_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
