"""The files of an evaluation: JSON, TREC, tables and the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.evaluation.evaluation import UNKNOWN, Evaluation, Part, Row, spread
from dssm_tf.evaluation.metrics import Values
from dssm_tf.evaluation.ranking import Ranking
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.page import render
from dssm_tf.reports.table import latex, markdown
from dssm_tf.reports.wording import COSTS, protocol
from dssm_tf.tables.trec import write_qrels, write_run

WRITTEN = (
    "report.html, table.md, table.tex, metrics.json, results.json, per_query.json, qrels.trec, "
    "runs/"
)
"""What `write` makes, the page first."""

_PROVENANCE = ("inputs", "models", "versions")
_SMALLEST_STEP = 1e-12  # between scores that were equal, in a run


def write(evaluation: Evaluation, out: Path, cross: tuple[str, str] | None = None) -> None:
    """Writes or replaces all of `WRITTEN` in a directory.

    Args:
        evaluation: what was found.
        out: the directory; other files in it stay.
        cross: see `table.markdown`.
    """
    texts = {
        "metrics.json": _json(metrics_json(evaluation)),
        "results.json": _json(results_json(evaluation)),
        "per_query.json": _json(_per_query_json(evaluation), indent=None),
        "table.md": markdown(evaluation, cross),
        "table.tex": latex(evaluation),
        "report.html": render(evaluation),
    }
    for name, text in texts.items():
        with atomic_write(out / name) as file:
            file.write(text)
    write_qrels(out / "qrels.trec", evaluation.task.qrels())
    with atomic_directory(out / "runs", own=["*.trec"]) as folder:
        rows = evaluation.measured_rows
        for row, stem in zip(rows, _file_names(evaluation.systems), strict=True):
            for number, one in enumerate(row.seeds):
                name = stem if number == 0 else f"{stem}.seed{one.seed}"
                write_run(folder / f"{name}.trec", run(evaluation.task, one.rankings), tag=name)


def metrics_json(evaluation: Evaluation) -> dict[str, Any]:
    """What `metrics.json` holds: means and tests; in a benchmark, spread over seeds and costs."""
    systems: dict[str, dict[str, Any]] = {}
    for row in evaluation.measured_rows:
        systems[row.name] = {
            **{metric: evaluation.mean(row.name, metric) for metric in evaluation.metrics},
            "ci95": evaluation.intervals(row.name),
            "parts": {part.name: _means(evaluation, row, part) for part in evaluation.parts},
            "queries": evaluation.measured_queries,
            "queries_left_out": len(evaluation.task.left_out()),
        }
        if evaluation.costed:
            systems[row.name] |= {
                "seeds": len(row.seeds),
                **{f"{metric} spread": spread(row.means(metric)) for metric in evaluation.metrics},
                **{name: row.cost(name) for name in COSTS},
            }
        if (share := row.seeds[0].about.get(UNKNOWN)) is not None:
            systems[row.name][UNKNOWN] = share
    provenance = {
        name: evaluation.settings[name] for name in _PROVENANCE if name in evaluation.settings
    }
    return {**provenance, "systems": systems, "tests": _tests(evaluation)}


def _means(evaluation: Evaluation, row: Row, part: Part) -> dict[str, Any]:
    """A row's means on a part of the queries."""
    return {
        **{metric: float(np.mean(row.means(metric, part))) for metric in evaluation.metrics},
        "ci95": evaluation.intervals(row.name, part),
        "queries": part.queries,
    }


def results_json(evaluation: Evaluation) -> dict[str, Any]:
    """What `results.json` holds: all but the values query by query."""
    return {
        "format": 1,
        "settings": dict(evaluation.settings),
        "protocol": protocol(evaluation),
        "queries": {
            "measured": evaluation.measured_queries,
            "left_out": len(evaluation.task.left_out()),
            "new": None if evaluation.seen is None else int(evaluation.new_queries.sum()),
        },
        "metrics": list(evaluation.metrics),
        "against": list(evaluation.against),
        "systems": {row.name: _row(evaluation, row) for row in evaluation.rows},
        "tests": _tests(evaluation),
        **evaluation.description.to_json(),
    }


def _per_query_json(evaluation: Evaluation) -> dict[str, Any]:
    """What `per_query.json` holds: one number a query, in the order of `query_ids`."""

    def numbers(values: Values) -> list[float | None]:
        return [None if np.isnan(value) else float(value) for value in values]

    seen, half = evaluation.seen, evaluation.half
    return {
        "query_ids": list(evaluation.task.query_ids),
        "queries": list(evaluation.task.queries),
        "in_log": None if seen is None else seen.tolist(),
        "traffic": None if evaluation.traffic is None else evaluation.traffic.tolist(),
        "half": None if half is None else [int(one) + 1 for one in half],
        "systems": {
            row.name: {
                "mean": {metric: numbers(row.values(metric)) for metric in evaluation.metrics},
                "seeds": [
                    {metric: numbers(one.values[metric]) for metric in evaluation.metrics}
                    for one in row.seeds
                ],
            }
            for row in evaluation.measured_rows
        },
    }


def run(task: RankingTask, rankings: Sequence[Ranking]) -> dict[str, dict[str, float]]:
    """A system's ranking as a TREC run.

    Tied scores come out a hair apart, in ranking order: other tools break
    ties in other ways, and this way they all read the ranking measured here.
    """
    return {
        query_id: {
            task.doc_ids[column]: float(score)
            for column, score in zip(columns, _untied(scores), strict=True)
        }
        for query_id, (columns, scores) in zip(task.query_ids, rankings, strict=True)
    }


def _file_names(systems: Sequence[str]) -> list[str]:
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


def _row(evaluation: Evaluation, row: Row) -> dict[str, Any]:
    """A row of `results.json`."""

    def summary(part: Part | None) -> dict[str, Any]:
        intervals = evaluation.intervals(row.name, part)
        found = {}
        for metric in evaluation.metrics:
            means = row.means(metric, part)
            found[metric] = {
                "mean": float(np.mean(means)),
                "ci95": intervals[metric],
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
            "parts": {part.name: summary(part) for part in evaluation.parts},
            "seeds": [one.seed for one in row.seeds],
            **{name: row.cost(name) for name in COSTS},
            "notes": row.notes,
            "about": [dict(one.about) for one in row.seeds],
            "top_1_grades": evaluation.description.top_1[row.name],
        }
    return entry


def _tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [{**test._asdict(), "ci95": list(test.ci95)} for test in evaluation.comparisons]


def _json(content: dict[str, Any], indent: int | None = 2) -> str:
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def _untied(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores that fall strictly in single precision, moved no further than that takes."""
    single = scores.astype(np.float32)
    steps = np.maximum(np.abs(np.spacing(single[:-1])), _SMALLEST_STEP)
    ties = np.flatnonzero(single[1:] > single[:-1] - steps)
    if not len(ties):
        return single
    first = int(ties[0])
    numbers = single[first:].tolist()
    above = numbers[0]
    for place, number in enumerate(numbers[1:], start=1):
        # The distance of numbers in single precision, which has 24 binary digits.
        spacing = math.ldexp(1.0, math.frexp(above)[1] - 24) if above else 0.0
        numbers[place] = above = min(number, above - max(spacing, _SMALLEST_STEP))
    single[first:] = numbers
    return single
