"""Measures models on graded judgments, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from dssm_tf.evaluation.evaluation import Evaluation
    from dssm_tf.evaluation.ranker import Ranker
    from dssm_tf.tables.judgments import CorpusTitle, Judgment


def evaluate(
    models: Ranker | Mapping[str, Ranker],
    judgments: Path | str | Sequence[Judgment],
    corpus: Path | str | Sequence[CorpusTitle] | None = None,
    *,
    metrics: Sequence[str] = METRICS,
    title_fields: Sequence[str] = ("title",),
) -> Evaluation:
    """Measures models by graded judgments, as `dssm evaluate` does, and writes nothing.

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

    Returns:
        `systems`, their names; `mean(system, metric)`; `intervals(system)`, the 95 % interval of
        each mean; `values[system][metric]` float64 `(queries,)`; `comparisons`, the paired tests;
        `top(system, query)`, a ranking with its grades.

    Raises:
        UserError: a table is missing or malformed, or there is nothing to measure.
    """
    from dssm_tf.evaluation.evaluate import evaluate as measure
    from dssm_tf.tables.judgments import read_corpus, read_judgments

    named = models if isinstance(models, Mapping) else {models.name: models}
    if isinstance(judgments, (str, Path)):
        judgments = read_judgments(judgments, title_fields=tuple(title_fields))
    if isinstance(corpus, (str, Path)):
        corpus = read_corpus(corpus, title_fields=tuple(title_fields))
    evaluation = measure(named, judgments, corpus, metrics=metrics)
    for line in evaluation.task.foregone():
        warnings.warn(line, stacklevel=2)
    return evaluation
