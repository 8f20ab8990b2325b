"""Rank, measure, compare: from rankers and judgments to an `Evaluation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.evaluation import Evaluation, Row, SeedResult
from dssm_tf.evaluation.metrics import METRICS
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.runs import make_run, relevant_ranks, trec_run
from dssm_tf.evaluation.significance import Comparison, holm, paired_t_test
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment, read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.trec import Run

_SAVED = 100  # titles of each ranking that are written and shown
_POPULARITY = (
    "ranks with its prior of titles, as deployed, which other rows lack: dssm benchmark measures "
    "every system without and with it"
)


def evaluate(
    models: Ranker | Mapping[str, Ranker],
    judgments: Path | str | Sequence[Judgment],
    corpus: Path | str | Sequence[CorpusTitle] | None = None,
    *,
    metrics: Sequence[str] = METRICS,
    title_fields: Sequence[str] = ("title",),
    runs: Mapping[str, Run] | None = None,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    progress: bool = False,
) -> Evaluation:
    """Measures models by graded judgments, as `dssm evaluate` does, and writes nothing.

    Ties go by a hash of the title's text, see `ranking.tie_key`. Queries without a relevant title
    are left out of every mean and named in the result.

    Args:
        models: what `load` gives, or anything else with `name`, `score` and `score_matrix`; or
            several of these by name, which are compared.
        judgments: a table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade;
            or a list of `Judgment`.
        corpus: a table with doc_id, title; or a list of `CorpusTitle`: each query then
            ranks all of it, and titles without a judgment have grade 0. None ranks each query's
            judged titles.
        metrics: such as `ndcg@10`, `mrr@10`, `map`; see `dssm_tf.evaluation.metrics`.
        title_fields: columns of the tables that a title is made of, see `--title-fields`.
        runs: rankings made elsewhere, by name, to measure as further systems; what a run does not
            list is not ranked.
        about: by system, what is known of it besides, see `SeedResult`.
        progress: whether it is shown on the error stream.

    Returns:
        `systems`, their names; `summary()`, a frame of means with their 95 % intervals;
        `mean(system, metric)`; `values[system][metric]` float64 `(queries,)`; `comparisons`, the
        paired tests; `top(system, query)`, the first titles with their grades; `task.foregone()`,
        whether titles that all have one grade make means meaningless.

    Raises:
        UserError: a table is missing or malformed, there is nothing to measure, names clash, a
            relevant title is not in the corpus, or a system's scores are not usable.
    """
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
    read = {name: trec_run(name, run, task) for name, run in runs.items()}
    rows = []
    priors = [bool(getattr(one, "mean_prior", 0.0)) for one in systems.values()]
    for (name, ranker), prior in zip(systems.items(), priors, strict=True):
        with progress_of(name, len(task.queries), progress, "queries") as bar:
            run = make_run(name, ranker.score_matrix, task, advance=bar.advance)
        known = dict((about or {}).get(name, {}))
        if prior and (runs or not all(priors)):
            known["notes"] = [*known.get("notes", ()), _POPULARITY]
        rows.append(Row(name, "system", [measured(run, task, metrics, about=known)]))
    for name, (run, notes) in read.items():
        rows.append(Row(name, "run", [measured(run, task, metrics, about={"notes": notes})]))
    names = tuple(row.name for row in rows)
    tests = compare(rows, metrics, task.counted)
    return Evaluation(task, tuple(metrics), rows, tests, against=names)


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

    values = per_query(relevant_ranks(run, task), len(task.queries), metrics)
    return SeedResult(seed, pl.DataFrame(values), run.filter(pl.col("rank") <= _SAVED), about or {})


def compare(
    rows: Sequence[Row],
    metrics: Sequence[str],
    counted: NDArray[np.bool_],
    pairs: Sequence[tuple[Row, Row]] | None = None,
) -> list[Comparison]:
    """Tests rows by each query's mean over seeds; Holm's adjustment counts all tests together.

    Args:
        rows: what was measured.
        metrics: which to test.
        counted: `(queries,)`, which take part.
        pairs: rows `(a, b)` to test; by default every row against each before it.

    Returns:
        Comparisons, metric by metric.
    """
    if pairs is None:
        pairs = [(later, earlier) for earlier, later in combinations(rows, 2)]
    tests = []
    for metric, (a, b) in product(metrics, pairs):
        found = (a.values(metric) - b.values(metric))[counted]
        p, ci95 = paired_t_test(found)
        tests.append(Comparison(a.name, b.name, metric, p, p, float(found.mean()), ci95))
    adjusted = holm([one.p for one in tests]).tolist()
    return [one._replace(p_adjusted=p) for one, p in zip(tests, adjusted, strict=True)]
