"""The files of an evaluation: report, tables for programs, and TREC."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.evaluation import Evaluation, Row
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports import markdown
from dssm_tf.reports.formatting import COSTS, has_costs, judged_only_protocol, protocol
from dssm_tf.reports.queries import queries
from dssm_tf.reports.report import text
from dssm_tf.reports.statistics import first_title_labels
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.trec import write_qrels, write_run

REPORT_FILES = "report.html, report.md, metrics.json, per_query.tsv, qrels.trec, runs/"
"""The files that `write` creates, the page first."""

_BLOCK_QUERIES = 1000  # queries of a run that are written at a time
_SMALLEST_STEP = np.float32(1e-12)  # between equal scores in a run file


def write(evaluation: Evaluation, out: Path) -> None:
    """Writes or replaces the files `REPORT_FILES` in a directory, the page last.

    A killed process thus leaves no page without the other files.

    Args:
        evaluation: the results to write.
        out: the directory; its other files stay.
    """
    metrics = json.dumps(metrics_json(evaluation), indent=2, ensure_ascii=False, allow_nan=False)
    for name, content in {
        "metrics.json": f"{metrics}\n",
        "per_query.tsv": per_query(evaluation).write_csv(separator="\t"),
    }.items():
        with atomic_write(out / name) as file:
            file.write(content)
    write_qrels(out / "qrels.trec", qrels(evaluation.task))
    rows, task = evaluation.measured_rows, evaluation.task
    total = len(task.queries) * sum(len(row.seeds) for row in rows)
    with (
        atomic_directory(out / "runs", owned_patterns=["*.trec"]) as folder,
        progress_of("writing the rankings", total, unit="queries") as progress,
    ):
        for row, stem in zip(rows, _file_names(evaluation.systems), strict=True):
            for index, result in enumerate(row.seeds):
                name = stem if index == 0 else f"{stem}.seed{result.seed}"
                blocks = _run_blocks(task, result.run, progress.advance)
                write_run(folder / f"{name}.trec", chain.from_iterable(blocks), tag=name)
    markdown.write(out, *text(evaluation), queries(evaluation))


def metrics_json(evaluation: Evaluation) -> dict[str, Any]:
    """The content of `metrics.json`: everything except the values per query."""
    means: dict[str, dict[str, Any]] = {}
    first = first_title_labels(evaluation.task, evaluation.runs)
    for subset, mask in {"": evaluation.task.has_relevant, **evaluation.query_subsets}.items():
        for name, entry in _means(evaluation, int(mask.sum()), subset).items():
            means.setdefault(name, {})[subset] = entry
    judged_only = evaluation.judged_only
    return {
        "settings": dict(evaluation.settings),
        "protocol": protocol(evaluation),
        "queries": {
            "measured": evaluation.measured_queries,
            "left_out": len(evaluation.task.queries) - evaluation.measured_queries,
            "new": None if evaluation.in_log is None else int(evaluation.new_queries.sum()),
        },
        "metrics": list(evaluation.metrics),
        "against": list(evaluation.against),
        "log_overlap": None if evaluation.log_overlap is None else evaluation.log_overlap._asdict(),
        "systems": {
            row.name: _system_entry(evaluation, row, means.get(row.name), first)
            for row in evaluation.rows
        },
        "tests": _tests(evaluation),
        "judged_only": None if judged_only is None else _judged_only(judged_only),
    }


def _judged_only(evaluation: Evaluation) -> dict[str, Any]:
    """The entry of an evaluation on judged titles only: protocol, means and tests."""
    return {
        "protocol": judged_only_protocol(evaluation),
        "metrics": list(evaluation.metrics),
        "systems": _means(evaluation, evaluation.measured_queries),
        "tests": _tests(evaluation),
    }


def _tests(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [{**test._asdict(), "ci95": list(test.ci95)} for test in evaluation.comparisons]


def _system_entry(
    evaluation: Evaluation,
    row: Row,
    means: dict[str, Any] | None,
    first: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """A system's entry in `metrics.json`: means by subset, costs, first titles."""
    entry: dict[str, Any] = {"kind": row.kind, "error": row.error}
    if row.sweep:
        entry["sweep"] = {"key": row.sweep[0], "value": row.sweep[1]}
    if means:
        entry |= {
            **means.pop(""),
            "subsets": means,
            **({name: row.cost(name) for name in COSTS} if has_costs(evaluation) else {}),
            "notes": row.notes,
            "log_overlap": overlap._asdict()
            if (overlap := evaluation.overlaps.get(row.name))
            else None,
            "facts": [{"seed": result.seed, **result.facts} for result in row.seeds],
            "top_1_grades": Counter(first[row.name]),
        }
    return entry


def _means(
    evaluation: Evaluation, query_count: int, subset: str | None = None
) -> dict[str, dict[str, Any]]:
    """The means over a number of queries, with intervals and the means of seeds, by system."""
    return {
        name: {
            **{cell["metric"]: cell["mean"] for cell in cells},
            "ci95": {cell["metric"]: (cell["low"], cell["high"]) for cell in cells},
            **{key: {cell["metric"]: cell[key] for cell in cells} for key in ("seeds", "spread")},
            "queries": query_count,
        }
        for name, cells in evaluation.summary(subset).rows_by_key("system", named=True).items()
    }


def per_query(evaluation: Evaluation) -> pl.DataFrame:
    """The content of `per_query.tsv`: one row per system, seed and query.

    Queries that the means leave out have no values. `in_log` and `fold` are empty if unknown. The
    columns `judged_only_...` are of the evaluation on judged titles only, if there is one.
    """
    queries = pl.DataFrame(
        {
            "query_id": evaluation.task.query_ids,
            "query": evaluation.task.queries,
            "in_log": evaluation.in_log,
            "fold": None if evaluation.fold is None else evaluation.fold + 1,
        }
    )
    judged_only = evaluation.judged_only
    judged_only_seeds = {row.name: row.seeds for row in judged_only.rows} if judged_only else {}
    frames = []
    for row in evaluation.measured_rows:
        for index, result in enumerate(row.seeds):
            columns = [*result.values.fill_nan(None)]
            if row.name in judged_only_seeds:
                values = judged_only_seeds[row.name][index].values.fill_nan(None)
                columns += [*values.select(pl.all().name.prefix("judged_only_"))]
            system, seed = pl.lit(row.name).alias("system"), pl.lit(result.seed, pl.Int64)
            frames.append(queries.select(system, seed.alias("seed"), pl.all(), *columns))
    return pl.concat(frames)


def qrels(task: RankingTask) -> list[Judgment]:
    """The judgments of the measured queries, with doc ids of the corpus.

    Queries without a relevant title are omitted, because other tools would count them as 0.
    """
    measured = pl.col("query").is_in(np.flatnonzero(task.has_relevant))
    return [
        Judgment(task.query_ids[query], task.queries[query], task.doc_ids[title],
                 task.titles[title], grade)
        for query, title, grade in task.judged.filter(measured)
        .select("query", "title", "grade")
        .iter_rows()
    ]  # fmt: skip


def run(task: RankingTask, ranked: pl.DataFrame) -> dict[str, dict[str, float]]:
    """A system's ranking as a TREC run.

    Equal scores are lowered by tiny steps, in ranking order. Other tools break ties differently, so
    otherwise they would read another ranking.
    """
    return dict(chain.from_iterable(_run_blocks(task, ranked)))


def _run_blocks(
    task: RankingTask, ranked: pl.DataFrame, advance: Callable[[int], object] | None = None
) -> Iterator[list[tuple[str, dict[str, float]]]]:
    """The entries of `run` for some queries at a time, so that memory stays bounded.

    Args:
        task: the queries and titles.
        ranked: the run, sorted by query and rank.
        advance: called with the number of queries of each block.
    """
    for start in range(0, len(task.queries), _BLOCK_QUERIES):
        first, end = np.searchsorted(ranked["query"], [start, start + _BLOCK_QUERIES]).tolist()
        block = ranked[first:end]
        queries, offsets = np.unique(block["query"], return_index=True)
        scores = _break_ties(block["score"].to_numpy(), [*offsets.tolist(), len(block)])
        titles = [task.doc_ids[title] for title in block["title"]]
        bounds = pairwise([*offsets.tolist(), len(block)])
        yield [
            (task.query_ids[query], dict(zip(titles[low:high], scores[low:high], strict=True)))
            for query, (low, high) in zip(queries.tolist(), bounds, strict=True)
        ]
        if advance is not None:
            advance(min(_BLOCK_QUERIES, len(task.queries) - start))


def _file_names(systems: Sequence[str]) -> list[str]:
    """A unique file name per system: its name, if that is a valid file name."""
    stems = [re.sub(r"[^\w.+-]+", "_", system).strip(".") or "system" for system in systems]
    counts = Counter(stem.casefold() for stem in stems)
    return [
        stem if counts[stem.casefold()] == 1 else f"{stem}-{number}"
        for number, stem in enumerate(stems, start=1)
    ]


def _break_ties(scores: NDArray[np.float32], bounds: Sequence[int]) -> list[float]:
    """Makes scores in ranking order strictly descending, in float32, with minimal changes.

    Args:
        scores: `(rows,)`, sorted by query.
        bounds: the first row of each query, and the number of rows.
    """
    starts, sizes = np.array(bounds[:-1], np.int64), np.diff(bounds)
    descending = scores.astype(np.float32)
    # By rank and not by query, because there are more queries than ranks.
    for rank in range(1, int(sizes.max(initial=0))):
        rows = starts[sizes > rank] + rank
        below = np.nextafter(descending[rows - 1] - _SMALLEST_STEP, np.float32(-np.inf))
        descending[rows] = np.minimum(descending[rows], below)
    result: list[float] = descending.tolist()
    return result
