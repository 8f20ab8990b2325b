"""The result of an evaluation: values a query, rankings, tests; written and shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dssm_tf.common.files import atomic_directory
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import Judgment, write_qrels, write_run

SIGNIFICANT = 0.05
SMALLEST_STEP = 1e-12  # between scores that were equal, in a run
_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"  # Unicode has no raised q
_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Ranking(NamedTuple):
    """The top of one query's ranking: places in `RankingTask.titles`, and scores."""

    columns: NDArray[np.int32]
    scores: NDArray[np.float32]


class RankedTitle(NamedTuple):
    """One line of a ranking; the grade is None where nobody judged."""

    rank: int
    doc_id: str
    title: str
    score: float
    grade: float | None


class Comparison(NamedTuple):
    """Whether system `a` beats system `b` on one metric.

    `difference` is the mean of `a - b` over queries, `ci95` its bootstrap
    interval, `p` of the paired t-test, `p_adjusted` after Holm's adjustment
    (see `compare` for what it counts together), `p_randomisation` of the sign
    flip test, as a check of `p` that assumes no distribution.
    """

    a: str
    b: str
    metric: str
    p: float
    p_adjusted: float
    p_randomisation: float
    difference: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class Evaluation:
    """Systems measured on one task.

    Attributes:
        task: the queries, titles and grades.
        metrics: names, in table order.
        values: `values[system][metric]` is `(queries,)` in the order of
            `task.queries`, NaN for queries without a relevant title.
        rankings: `rankings[system][query]`, the top of the ranking.
        comparisons: of the systems, two by two.
    """

    task: RankingTask
    metrics: tuple[str, ...]
    values: Mapping[str, Mapping[str, NDArray[np.float64]]]
    rankings: Mapping[str, Sequence[Ranking]]
    comparisons: Sequence[Comparison]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names, in table order."""
        return tuple(self.values)

    @property
    def measured_queries(self) -> int:
        """Queries with a relevant title: those that the means count."""
        return len(self.task.queries) - len(self.task.left_out())

    def mean(self, system: str, metric: str) -> float:
        """Mean over the queries that have a relevant title."""
        return float(np.nanmean(self.values[system][metric]))

    def top(self, system: str, query: int, depth: int = 10) -> list[RankedTitle]:
        """The first titles of a system for a query, by the query's place in `task.queries`."""
        columns, scores = self.rankings[system][query]
        return [
            RankedTitle(
                rank,
                self.task.doc_ids[column],
                self.task.titles[column],
                float(score),
                self.task.grade(query, int(column)),
            )
            for rank, (column, score) in enumerate(
                zip(columns[:depth], scores[:depth], strict=True), start=1
            )
        ]

    def beaten(self, system: str, metric: str) -> list[str]:
        """Systems that this one beats with an adjusted p below 0.05."""
        found = []
        for test in self.comparisons:
            if test.metric != metric or test.p_adjusted >= SIGNIFICANT:
                continue
            if test.a == system and test.difference > 0:
                found.append(test.b)
            if test.b == system and test.difference < 0:
                found.append(test.a)
        return sorted(found, key=self.systems.index)

    def mark(self, system: str) -> str:
        """The raised letter that stands for a system in tables."""
        place = self.systems.index(system)
        return _LETTERS[place] if place < len(_LETTERS) else f"⁽{place + 1}⁾".translate(_DIGITS)

    def protocol(self) -> list[str]:
        """What was done, in sentences: shown under every table."""
        sentences = self.ranking_protocol()
        if self.comparisons:
            sentences.append(
                "A raised letter: better than that system, p < 0.05, paired t-test, "
                "adjusted for the number of pairs (Holm)."
            )
        return sentences

    def ranking_protocol(self) -> list[str]:
        """What was ranked and measured, in sentences."""
        task = self.task
        left_out = len(task.left_out())
        sentences = [
            f"Each query ranks the whole corpus of {len(task.titles):,} titles; "
            "titles that are not judged have grade 0."
            if task.whole_corpus
            else "Each query ranks its judged titles.",
            f"Means over {self.measured_queries:,} queries.",
            f"{left_out:,} further {'query has' if left_out == 1 else 'queries have'} no relevant "
            "title (all grades 0) and no part in the means."
            if left_out
            else "Every query has a relevant title (grade above 0).",
            "NDCG: gain 2^grade - 1, discount log2(rank + 1). Ties go to the smaller doc id.",
        ]
        if task.dropped:
            sentences.append(
                f"{task.dropped:,} judgments with grade 0 are of titles that the corpus lacks."
            )
        if task.retitled:
            sentences.append(
                f"{task.retitled:,} judgments were found by a doc id that has another title "
                "in the corpus."
            )
        return sentences

    def to_json(self) -> dict[str, Any]:
        """What `metrics.json` holds."""
        return {
            "systems": {
                system: {
                    **{metric: self.mean(system, metric) for metric in self.metrics},
                    "queries": self.measured_queries,
                    "queries_left_out": len(self.task.left_out()),
                }
                for system in self.systems
            },
            "tests": [{**test._asdict(), "ci95": list(test.ci95)} for test in self.comparisons],
        }

    def run(self, system: str) -> dict[str, dict[str, float]]:
        """The system's ranking as a TREC run.

        Tied scores come out a hair apart, in ranking order: other tools break
        ties in other ways, and this way they all read the ranking measured here.
        """
        run: dict[str, dict[str, float]] = {}
        for query_id, (columns, scores) in zip(
            self.task.query_ids, self.rankings[system], strict=True
        ):
            run[query_id] = {
                self.task.doc_ids[column]: float(score)
                for column, score in zip(columns, _untied(scores), strict=True)
            }
        return run

    def qrels(self) -> list[Judgment]:
        """The judgments as used: doc ids of the corpus, without dropped ones."""
        task = self.task
        return [
            Judgment(query_id, query, task.doc_ids[column], task.titles[column], float(grade))
            for query_id, query, columns, grades in zip(
                task.query_ids, task.queries, task.judged_columns, task.judged_grades, strict=True
            )
            for column, grade in zip(columns, grades, strict=True)
        ]

    def write(self, out_dir: Path | str, *, replace: bool = False) -> None:
        """Writes `metrics.json`, `runs/NAME.trec`, `qrels.trec` and `report.html`, all or nothing.

        Args:
            out_dir: directory to make.
            replace: whether it may replace what is there.

        Raises:
            UserError: the directory exists, holds something, and `replace` is false.
        """
        from dssm_tf.evaluation.report import render

        with atomic_directory(Path(out_dir), replace=replace) as folder:
            text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
            (folder / "metrics.json").write_text(text + "\n", encoding="utf-8")
            write_qrels(folder / "qrels.trec", self.qrels())
            for system, stem in zip(self.systems, file_names(self.systems), strict=True):
                write_run(folder / "runs" / f"{stem}.trec", self.run(system), tag=stem)
            (folder / "report.html").write_text(render(self), encoding="utf-8")

    def print_table(self, console: Console) -> None:
        """Shows the means, the best of each column in bold, and the protocol."""
        table = Table(header_style="bold", caption_justify="left")
        table.add_column("")
        table.add_column("system")
        for metric in self.metrics:
            table.add_column(metric_label(metric), justify="right")
        best = {m: max(self.mean(system, m) for system in self.systems) for m in self.metrics}
        for system in self.systems:
            cells = []
            for metric in self.metrics:
                mean = self.mean(system, metric)
                style = "bold green" if len(self.systems) > 1 and mean == best[metric] else ""
                marks = "".join(self.mark(other) for other in self.beaten(system, metric))
                shown = f"{mean:.3f}"
                cells.append(f"[{style}]{shown}[/]{marks}" if style else f"{shown}{marks}")
            table.add_row(self.mark(system), _escaped(system), *cells)
        console.print(table)
        for sentence in self.protocol():
            console.print(sentence, style="dim", highlight=False, markup=False)


def metric_label(metric: str) -> str:
    """How tables head a metric's column: `ndcg@10` as `NDCG@10`.

    >>> [metric_label(name) for name in ("ndcg@10", "recall@10", "map")]
    ['NDCG@10', 'Recall@10', 'MAP']
    """
    kind, at, cutoff = metric.partition("@")
    return (kind.upper() if kind in ("ndcg", "mrr", "map") else kind.capitalize()) + at + cutoff


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _untied(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores that fall strictly in single precision, moved no further than that takes."""
    single = scores.astype(np.float32)
    steps = np.maximum(np.abs(np.spacing(single[:-1])), SMALLEST_STEP)
    ties = np.flatnonzero(single[1:] > single[:-1] - steps)
    if not len(ties):
        return single
    first = int(ties[0])
    numbers = single[first:].tolist()
    above = numbers[0]
    for place, number in enumerate(numbers[1:], start=1):
        # The distance of numbers in single precision, which has 24 binary digits.
        spacing = math.ldexp(1.0, math.frexp(above)[1] - 24) if above else 0.0
        numbers[place] = above = min(number, above - max(spacing, SMALLEST_STEP))
    single[first:] = numbers
    return single


def file_names(systems: Sequence[str]) -> list[str]:
    """A different file name for each system, its own where that can be one."""
    names: list[str] = []
    for system in systems:
        stem = name = re.sub(r"[^\w.+-]+", "_", system).strip(".") or "system"
        number = 2
        while name.casefold() in [taken.casefold() for taken in names]:
            name = f"{stem}-{number}"
            number += 1
        names.append(name)
    return names
