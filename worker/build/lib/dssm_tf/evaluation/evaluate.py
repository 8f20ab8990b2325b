"""Rank, measure, compare: from rankers and judgments to an `Evaluation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult
from dssm_tf.evaluation.metrics import METRICS
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.runs import by_ranker, make_run, rankings, relevant_ranks, trec_run
from dssm_tf.evaluation.significance import Comparison, holm, paired_t_test
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import Run


def evaluate(
    systems: Mapping[str, Ranker],
    judgments: Sequence[Judgment],
    corpus: Sequence[CorpusTitle] | None = None,
    *,
    runs: Mapping[str, Run] | None = None,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    metrics: Sequence[str] = METRICS,
    console: Console | None = None,
) -> Evaluation:
    """Measures systems on the same judgments by the same code.

    Without a corpus each query ranks its judged titles. With one, each query
    ranks the whole corpus and titles that are not judged have grade 0. Ties go
    by a hash of the title's text, see `ranking.tie_key`. Queries without a
    relevant title are left out of every mean and named in the result.

    Args:
        systems: rankers by the name to show.
        judgments: grades; a query's titles need not stand together.
        corpus: the titles to rank, or None.
        runs: rankings made elsewhere, by name, to measure as further systems.
            What a run does not list is not ranked.
        about: by system, what is known of it besides, see `SeedResult`.
        metrics: see `metrics.parse_metric`.
        console: where to show progress; None shows none.

    Raises:
        UserError: there is nothing to measure, names clash, a relevant title
            is not in the corpus, or a system's scores are not usable.
    """
    given = {} if runs is None else runs
    if clash := set(systems) & set(given):
        raise UserError(f"a system and a run are both called {min(clash)}; rename one.")
    if not {**systems, **given}:
        raise UserError("there is no system to evaluate.")
    task = RankingTask(judgments, corpus)
    known = {name: dict(facts) for name, facts in (about or {}).items()}
    found: dict[str, pl.DataFrame] = {}
    read = {name: trec_run(name, run, task) for name, run in given.items()}
    for name, ranker in systems.items():
        with progress_of(name, len(task.queries), console, "queries") as progress:
            scores = by_ranker(ranker, task)
            found[name] = make_run(name, scores, task, advance=progress.advance)
    for name, (run, notes) in read.items():
        found[name], known[name] = run, {"notes": notes}
    rows = [
        Row(
            name,
            "run" if name in given else "system",
            [measured(run, task, metrics, about=known.get(name, {}))],
        )
        for name, run in found.items()
    ]
    return Evaluation(task, tuple(metrics), rows, compare(rows, metrics), against=tuple(found))


def measured(
    run: pl.DataFrame,
    task: RankingTask,
    metrics: Sequence[str],
    seed: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> SeedResult:
    """A run with its values of the metrics."""
    # TensorFlow takes seconds to import: not before the input has been found good.
    from dssm_tf.evaluation.tf_ranking import per_query

    values = per_query(relevant_ranks(run, task), metrics)
    return SeedResult(seed, values, rankings(run, len(task.queries)), about or {})


def compare(
    rows: Sequence[Row],
    metrics: Sequence[str],
    pairs: Sequence[tuple[Row, Row]] | None = None,
) -> list[Comparison]:
    """Tests rows by each query's mean over seeds; Holm's adjustment counts all tests together.

    Args:
        rows: what was measured.
        metrics: which to test.
        pairs: rows `(a, b)` to test; by default every row against each before it.

    Returns:
        Comparisons, metric by metric.
    """
    if pairs is None:
        pairs = [(later, earlier) for earlier, later in combinations(rows, 2)]
    tested = []
    for metric in metrics:
        for a, b in pairs:
            found = a.values(metric) - b.values(metric)
            found = found[~np.isnan(found)]
            mean = float(found.mean()) if len(found) else 0.0
            tested.append((a.name, b.name, metric, mean, *paired_t_test(found)))
    adjusted = holm([p for *_, p, _ in tested])
    return [
        Comparison(a, b, metric, p, float(p_adjusted), difference, ci95)
        for (a, b, metric, difference, p, ci95), p_adjusted in zip(tested, adjusted, strict=True)
    ]
