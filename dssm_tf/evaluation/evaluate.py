"""Ranks, measures and compares: from rankers and judgments to an `Evaluation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.mapped_frames import mapped_if_large
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult
from dssm_tf.evaluation.metrics import (
    CONCORDANCE,
    METRICS,
    Metric,
    Values,
    custom_metric_per_query,
    is_judgment_rate,
    judged_per_query,
    metric_cutoff,
    metric_names,
    quality_metrics,
)
from dssm_tf.evaluation.metrics.concordance import concordance_per_query
from dssm_tf.evaluation.overlap import log_overlap
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.runs import (
    DEPTH,
    MIN_DEPTH,
    Rankings,
    rank_titles,
    relevant_ranks,
    run_depth,
    trec_run,
)
from dssm_tf.evaluation.significance import Comparison, holm, paired_t_test
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment, read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.trec import Run
from dssm_tf.text.training_log import TrainingLog

JUDGED_ONLY_METRICS = ("ndcg@1", "ndcg@3", "ndcg@10", CONCORDANCE)
"""The metrics of an evaluation on judged titles only, in table order."""

_JUDGMENT_RATE = "judged@10"
_PRIOR_NOTE = (
    "ranks with its log-prior of titles, as deployed; other rows have no prior. dssm benchmark "
    "measures every system with and without it"
)


def evaluate(
    models: Ranker | Mapping[str, Ranker],
    judgments: Path | str | Sequence[Judgment],
    corpus: Path | str | Sequence[CorpusTitle] | None = None,
    *,
    metrics: Sequence[str | Metric] = METRICS,
    title_fields: Sequence[str] = ("title",),
    runs: Mapping[str, Run] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    training_logs: Mapping[str, TrainingLog] | None = None,
    judged_only: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Measures models with graded judgments, as `dssm evaluate` does, and writes no files.

    Ties are broken by a hash of the title's text, see `ranking.tie_key`. Queries without a relevant
    title are left out of every mean; their values are NaN.

    Args:
        models: the result of `load`, a fitted baseline, or any other object with `name`, `score`
            and `score_matrix`; or several such objects by name, which are compared.
        judgments: a table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade;
            or a list of `Judgment`.
        corpus: a table with doc_id, title; or a list of `CorpusTitle`. Every query then ranks the
            whole corpus, and titles without a judgment have grade 0. With None, each query ranks
            its judged titles.
        metrics: names such as `ndcg@10`, `mrr@10` and `map`, and custom metrics as
            `dssm_tf.evaluation.metrics.Metric`. If they include NDCG, and the corpus has titles
            without a judgment, `judged@10` is added: the fraction of the first ten titles that
            have a judgment of any grade.
        title_fields: columns of the tables that are joined to a title, see `--title-fields`.
        runs: rankings by other systems, by name, which are measured too. Titles that a run does
            not list are not ranked.
        facts: costs and notes of each system, see `SeedResult`.
        training_logs: the training log of each system, if it is known; by default, the attribute
            `training_log` of the model. The result counts the judged queries and pairs in it.
        judged_only: whether to measure the systems on judged titles only, too; the result's
            attribute `judged_only` is then an evaluation by `JUDGED_ONLY_METRICS`.
        progress: whether to show progress on standard error.

    Returns:
        An evaluation. Its `systems` are the names of the systems; `summary()` is a frame of means
        with 95 % intervals; `mean(system, metric)` is a number; `values[system][metric]` is float64
        `(queries,)`; `comparisons` are the paired tests; `top(system, query)` are the first titles
        with their grades. `task.degenerate_query_warning()` warns of queries whose judged titles
        all have the same grade.

    Raises:
        UserError: a table is missing or malformed, nothing can be measured, names clash, a
            relevant title is not in the corpus, a metric does not exist, or a system's scores are
            not usable.
    """
    metric_names(metrics)  # raises errors before tables are read
    systems = models if isinstance(models, Mapping) else {models.name: models}
    runs, layout = runs or {}, Layout(title_fields=tuple(title_fields))
    if clash := set(systems) & set(runs):
        raise UserError(f"a system and a run are both called {min(clash)}; rename one.")
    if not {**systems, **runs}:
        raise UserError("there is no system to evaluate.")
    if isinstance(judgments, (str, Path)):
        judgments = read_judgments(judgments, layout)
    if isinstance(corpus, (str, Path)):
        corpus = read_corpus(corpus, layout)
    task = RankingTask(judgments, corpus)
    metrics = with_judgment_rate(metrics, task)
    names = metric_names(metrics)
    converted_runs = {name: trec_run(name, ranking, task) for name, ranking in runs.items()}
    rows, judged_only_rows = [], []

    def add(name: str, kind: str, rankings: Rankings, facts: Mapping[str, Any]) -> None:
        rows.append(Row(name, kind, [evaluate_run(rankings.run, task, metrics, facts=facts)]))
        if judged_only:
            judged_only_rows.append(
                Row(name, kind, [evaluate_condensed_run(rankings.condensed, task)])
            )

    priors = [bool(getattr(ranker, "mean_prior", 0.0)) for ranker in systems.values()]
    for (name, ranker), prior in zip(systems.items(), priors, strict=True):
        with progress_of(name, len(task.queries), progress, "queries") as task_progress:
            rankings = rank_titles(name, ranker.score_matrix, task, advance=task_progress.advance)
        details = dict((facts or {}).get(name, {}))
        if prior and (runs or not all(priors)):
            details["notes"] = [*details.get("notes", ()), _PRIOR_NOTE]
        add(name, "system", rankings, details)
    for name, (rankings, notes) in converted_runs.items():
        add(name, "run", rankings, {"notes": notes})
    tests = compare(rows, quality_metrics(names), task.has_relevant)
    known_logs: dict[str, TrainingLog | None] = {
        **{name: getattr(ranker, "training_log", None) for name, ranker in systems.items()},
        **dict.fromkeys(runs),
        **(training_logs or {}),
    }
    known_logs = {
        name: log for name, log in known_logs.items() if log is None or len(log.query_ids)
    }
    masks = [log.has_queries(task.queries) for log in known_logs.values() if log is not None]
    evaluation = Evaluation(
        task,
        names,
        rows,
        tests,
        against=tuple(row.name for row in rows),
        in_log=np.any(masks, axis=0) if masks else None,
        overlaps={name: log_overlap(task, log) for name, log in known_logs.items()},
    )
    if not judged_only:
        return evaluation
    on_judged_titles = evaluate_judged_only(task, judged_only_rows, evaluation.against)
    return replace(evaluation, judged_only=replace(on_judged_titles, overlaps=evaluation.overlaps))


def with_judgment_rate(
    metrics: Sequence[str | Metric], task: RankingTask
) -> tuple[str | Metric, ...]:
    """Adds `judged@10` after the last NDCG if rankings can contain titles without a judgment."""
    names = [metric for metric in metrics if isinstance(metric, str)]
    ndcg = [index for index, metric in enumerate(metrics) if str(metric).startswith("ndcg@")]
    if not task.ranks_unjudged or not ndcg or any(map(is_judgment_rate, names)):
        return tuple(metrics)
    return (*metrics[: ndcg[-1] + 1], _JUDGMENT_RATE, *metrics[ndcg[-1] + 1 :])


def evaluate_run(
    run: pl.DataFrame,
    task: RankingTask,
    metrics: Sequence[str | Metric],
    seed: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> SeedResult:
    """Computes the metrics of a run; see `runs` for the run's columns.

    Queries without a relevant title have no value. Concordance is also NaN for queries without a
    pair that counts.
    """
    # TensorFlow takes seconds to import, so it is imported after the input has been checked.
    from dssm_tf.evaluation.tf_ranking import per_query

    ranks, queries = relevant_ranks(run, task), len(task.queries)
    values: dict[str, Values] = {}
    built_in = []
    for metric in metrics:
        if isinstance(metric, Metric):
            values[metric.name] = custom_metric_per_query(metric, ranks, queries)
        elif metric == CONCORDANCE:
            values[metric] = concordance_per_query(run, task.judged, queries)
        elif is_judgment_rate(metric):
            values[metric] = judged_per_query(run, task.judged, queries, metric)
        else:
            built_in.append(metric)
    values |= per_query(ranks, queries, built_in)
    names = [metric if isinstance(metric, str) else metric.name for metric in metrics]
    frame = pl.DataFrame(
        {name: np.where(task.has_relevant, values[name], np.nan) for name in names}
    )
    depth = min(saved_ranks(metrics), run_depth(queries))
    is_deeper = len(run) > 0 and int(run["rank"].to_numpy().max()) > depth
    saved = run.filter(pl.col("rank") <= depth) if is_deeper else run
    return SeedResult(seed, frame, mapped_if_large(saved), facts or {})


def saved_ranks(metrics: Sequence[str | Metric]) -> int:
    """The depth of a result's run: deep enough to compute every metric from the run's file.

    It is the largest cut-off of the metrics, at least 100 and at most `DEPTH`. The cut-off of MAP
    is 1,000. Custom metrics and concordance have no cut-off. With more than 10,000 queries, the run
    may be less deep, see `run_depth`.

    >>> saved_ranks(["ndcg@10"]), saved_ranks(["recall@200", "mrr@10"]), saved_ranks(["map"])
    (100, 200, 1000)
    """
    cutoffs = [
        DEPTH if isinstance(metric, Metric) or metric == CONCORDANCE else metric_cutoff(metric)
        for metric in metrics
    ]
    return min(DEPTH, max([MIN_DEPTH, *cutoffs]))


def evaluate_condensed_run(
    condensed_run: pl.DataFrame, task: RankingTask, seed: int | None = None
) -> SeedResult:
    """Computes the metrics of an evaluation on judged titles only, from a condensed run."""
    return evaluate_run(condensed_run, task, JUDGED_ONLY_METRICS, seed)


def evaluate_judged_only(
    task: RankingTask,
    rows: Sequence[Row],
    against: Sequence[str],
    row_pairs: Sequence[tuple[Row, Row]] | None = None,
) -> Evaluation:
    """Compares systems on judged titles only: condensed lists, and concordance.

    A condensed list is a ranking without the titles that have no judgment for the query. NDCG of
    condensed lists and concordance do not depend on the ranks of other titles.

    Args:
        task: the judgments.
        rows: systems with results of `evaluate_condensed_run`.
        against: the systems that superscripts refer to.
        row_pairs: rows to test, see `compare`.

    Returns:
        An evaluation without concordance if no query has two judged titles to compare.

    Reference: Sakai 2007, "Alternatives to Bpref".
    """
    metrics: Sequence[str] = JUDGED_ONLY_METRICS
    if np.isnan(rows[0].values(CONCORDANCE)).all():
        metrics = [metric for metric in metrics if metric != CONCORDANCE]
    tests = compare(rows, metrics, task.has_relevant, row_pairs)
    selected = [
        replace(
            row, seeds=[replace(seed, values=seed.values.select(metrics)) for seed in row.seeds]
        )
        for row in rows
    ]
    judged_task = task.with_judged_titles_only()
    return Evaluation(judged_task, tuple(metrics), selected, tests, tuple(against))


def compare(
    rows: Sequence[Row],
    metrics: Sequence[str],
    query_mask: NDArray[np.bool_],
    row_pairs: Sequence[tuple[Row, Row]] | None = None,
) -> list[Comparison]:
    """Tests pairs of rows on each query's mean over seeds, with Holm's adjustment over all tests.

    Args:
        rows: measured systems.
        metrics: names of the metrics to test.
        query_mask: `(queries,)`, true for the queries to test on. Queries without a value of a
            metric are left out, too.
        row_pairs: rows `(a, b)` to test; by default every row against each earlier row.

    Returns:
        Comparisons, ordered by metric.
    """
    if row_pairs is None:
        row_pairs = [(later, earlier) for earlier, later in combinations(rows, 2)]
    tests = []
    for metric, (a, b) in product(metrics, row_pairs):
        differences = (a.values(metric) - b.values(metric))[query_mask]
        differences = differences[~np.isnan(differences)]
        p, ci95 = paired_t_test(differences)
        tests.append(Comparison(a.name, b.name, metric, p, p, float(differences.mean()), ci95))
    adjusted = holm([test.p for test in tests]).tolist()
    return [test._replace(p_adjusted=p) for test, p in zip(tests, adjusted, strict=True)]
