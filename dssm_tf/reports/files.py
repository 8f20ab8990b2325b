"""The files of an evaluation: report, tables for programs, and TREC."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dssm_tf.common import markdown
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.evaluation.evaluation import Evaluation, Row
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.formatting import COSTS, costed, protocol
from dssm_tf.reports.queries import queries
from dssm_tf.reports.report import text
from dssm_tf.reports.statistics import first_titles
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.trec import write_qrels, write_run

WRITTEN = "report.html, report.md, metrics.json, per_query.tsv, qrels.trec, runs/"
"""What `write` makes, the page first."""

_SMALLEST_STEP = np.float32(1e-12)  # between scores that were equal, in a run


def write(evaluation: Evaluation, out: Path) -> None:
    """Writes or replaces all of `WRITTEN` in a directory.

    Args:
        evaluation: what was found.
        out: the directory; other files in it stay.
    """
    markdown.write(out, *text(evaluation), queries(evaluation))
    metrics = json.dumps(metrics_json(evaluation), indent=2, ensure_ascii=False, allow_nan=False)
    for name, content in {
        "metrics.json": f"{metrics}\n",
        "per_query.tsv": per_query(evaluation).write_csv(separator="\t"),
    }.items():
        with atomic_write(out / name) as file:
            file.write(content)
    write_qrels(out / "qrels.trec", qrels(evaluation.task))
    with atomic_directory(out / "runs", own=["*.trec"]) as folder:
        rows = evaluation.measured_rows
        for row, stem in zip(rows, _file_names(evaluation.systems), strict=True):
            for number, one in enumerate(row.seeds):
                name = stem if number == 0 else f"{stem}.seed{one.seed}"
                write_run(folder / f"{name}.trec", run(evaluation.task, one.run), tag=name)


def metrics_json(evaluation: Evaluation) -> dict[str, Any]:
    """What `metrics.json` holds: all but the values query by query."""
    means: dict[str, dict[str, Any]] = {}
    first = first_titles(evaluation.task, evaluation.runs)
    for part, counted in {"": evaluation.task.counted, **evaluation.parts}.items():
        for name, cells in evaluation.summary(part).rows_by_key("system", named=True).items():
            means.setdefault(name, {})[part] = _means(int(counted.sum()), cells)
    return {
        "settings": dict(evaluation.settings),
        "protocol": protocol(evaluation),
        "queries": {
            "measured": evaluation.measured_queries,
            "left_out": len(evaluation.task.queries) - evaluation.measured_queries,
            "new": None if evaluation.seen is None else int(evaluation.new_queries.sum()),
        },
        "metrics": list(evaluation.metrics),
        "against": list(evaluation.against),
        "systems": {
            row.name: _row(evaluation, row, means.get(row.name), first) for row in evaluation.rows
        },
        "tests": [{**test._asdict(), "ci95": list(test.ci95)} for test in evaluation.comparisons],
    }


def _row(
    evaluation: Evaluation,
    row: Row,
    means: dict[str, Any] | None,
    first: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """A system of `metrics.json`, with its means by part and the labels of its first titles."""
    entry: dict[str, Any] = {"kind": row.kind, "error": row.error}
    if row.sweep:
        entry["sweep"] = {"key": row.sweep[0], "value": row.sweep[1]}
    if means:
        entry |= {
            **means.pop(""),
            "parts": means,
            **({name: row.cost(name) for name in COSTS} if costed(evaluation) else {}),
            "notes": row.notes,
            "about": [{"seed": one.seed, **one.about} for one in row.seeds],
            "top_1_grades": Counter(first[row.name]),
        }
    return entry


def _means(queries: int, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        **{cell["metric"]: cell["mean"] for cell in cells},
        "ci95": {cell["metric"]: (cell["low"], cell["high"]) for cell in cells},
        **{key: {cell["metric"]: cell[key] for cell in cells} for key in ("seeds", "spread")},
        "queries": queries,
    }


def per_query(evaluation: Evaluation) -> pl.DataFrame:
    """What `per_query.tsv` holds: a row for each system, seed and query.

    Without values are queries that means leave out; `in_log` and `half` are empty if nothing is
    known of them.
    """
    queries = pl.DataFrame(
        {
            "query_id": evaluation.task.query_ids,
            "query": evaluation.task.queries,
            "in_log": evaluation.seen,
            "half": None if evaluation.half is None else evaluation.half + 1,
        }
    )
    return pl.concat(
        queries.select(
            pl.lit(row.name).alias("system"),
            pl.lit(one.seed, pl.Int64).alias("seed"),
            pl.all(),
            *one.values.fill_nan(None),
        )
        for row in evaluation.measured_rows
        for one in row.seeds
    )


def qrels(task: RankingTask) -> list[Judgment]:
    """The judgments as used: doc ids of the corpus, without dropped ones."""
    return [
        Judgment(task.query_ids[query], task.queries[query], task.doc_ids[title],
                 task.titles[title], grade)
        for query, title, grade in task.judged.select("query", "title", "grade").iter_rows()
    ]  # fmt: skip


def run(task: RankingTask, ranked: pl.DataFrame) -> dict[str, dict[str, float]]:
    """A system's ranking as a TREC run.

    Tied scores come out a hair apart, in ranking order: other tools break
    ties in other ways, and this way they all read the ranking measured here.
    """
    return {
        task.query_ids[query]: {
            task.doc_ids[title]: score for title, score in zip(titles, _untied(scores), strict=True)
        }
        for query, titles, scores in ranked.group_by("query", maintain_order=True)
        .agg("title", "score")
        .iter_rows()
    }


def _file_names(systems: Sequence[str]) -> list[str]:
    """A different file name for each system, its own if that can be one."""
    stems = [re.sub(r"[^\w.+-]+", "_", system).strip(".") or "system" for system in systems]
    alike = Counter(stem.casefold() for stem in stems)
    return [
        stem if alike[stem.casefold()] == 1 else f"{stem}-{number}"
        for number, stem in enumerate(stems, start=1)
    ]


def _untied(scores: Sequence[float]) -> list[float]:
    """Scores that fall strictly in single precision, moved little further than that takes."""
    numbers = np.array(scores, np.float32)
    for rank in range(1, len(numbers)):
        below = np.nextafter(numbers[rank - 1] - _SMALLEST_STEP, np.float32(-np.inf))
        numbers[rank] = min(numbers[rank], below)
    found: list[float] = numbers.tolist()
    return found
