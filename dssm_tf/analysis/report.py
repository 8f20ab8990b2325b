"""The page of a run: how it was trained, how well it ranks and why, what it learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dssm_tf.analysis.activations import readings
from dssm_tf.analysis.cells import topics
from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.rendering import markdown
from dssm_tf.common.errors import UserError
from dssm_tf.common.figures import lines
from dssm_tf.common.markdown import plain, table
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.intervals import caution, interval
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.model.run_files import CONFIG, HISTORY
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.towers.recurrent import RecurrentTower

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METRIC = "ndcg@10"
_EXPLAINED = 5  # queries, best and worst
_SURVEYED = 2_000  # texts, at most
_TOPICS = 12  # cells


def report(
    run: Path,
    judgments: Sequence[Judgment] = (),
    corpus: Sequence[CorpusTitle] | None = None,
    *,
    beside: Mapping[str, Path] | None = None,
) -> tuple[str, dict[str, Figure]]:
    """A run as a report.

    Args:
        run: what `dssm train` wrote.
        judgments: to measure it by, and to explain the best and worst queries of; may be empty.
        corpus: the titles to rank; those of the judgments if None.
        beside: further runs: their curves, cosines and keywords stand beside this one's.

    Returns:
        Markdown, and its figures by name.

    Raises:
        UserError: a run cannot be read, or nothing can be measured by the judgments.
    """
    ranker = SemanticRanker.load(run)
    if ranker.name in (beside or {}):
        raise UserError(
            f"--beside {ranker.name}: the run itself is called so; give another name, NAME=RUN."
        )
    others = [SemanticRanker.load(path, name) for name, path in (beside or {}).items()]
    shares = ranker.prior.log_shares
    evaluation: Evaluation | None = None
    texts: list[Any] = sorted(shares, key=lambda title: (-shares[title], title))
    if judgments:
        evaluation = evaluate({ranker.name: ranker}, judgments, corpus)
        texts = list(dict.fromkeys(evaluation.task.queries))
    figures = _curves({ranker.name: run, **(beside or {})})
    parts = [
        f"# {plain(ranker.name)}, what it learned",
        f"What {plain(str(run))} learned from its clicks: {ranker.model.count_params():,} "
        f"parameters, {len(shares):,} clicked titles; their log-prior has weight "
        f"{ranker.prior_weight:g}.",
        "## Training",
        *(f"![]({name}.svg)" for name in figures),
    ]
    if evaluation is not None:
        parts += _measured(ranker, evaluation, others)
    tower = ranker.model.query_tower if evaluation else ranker.model.title_tower
    if isinstance(tower, RecurrentTower):
        parts += _topics(ranker, tower, texts[:_SURVEYED])
    parts += ["## Configuration", f"```\n{(run / CONFIG).read_text('utf-8').strip()}\n```"]
    return "\n\n".join(parts), figures


def _curves(runs: Mapping[str, Path]) -> dict[str, Figure]:
    """Losses and NDCG of the first trainings by epoch (Palangi et al. 2016, fig. 7)."""
    histories = {name: json.loads((run / HISTORY).read_text("utf-8")) for name, run in runs.items()}
    figures = {}
    for metric, label in (
        ("loss", "Training loss (nats), logarithmic"),
        ("val_loss", "Validation loss (nats), logarithmic"),
        (_METRIC, f"Validation {metric_label(_METRIC)}"),
    ):
        curves = {
            name: [epoch[metric] for epoch in history]
            for name, history in histories.items()
            if history and metric in history[0]
        }
        if curves:
            name = f"curve-{metric.replace('@', '')}"
            figures[name] = lines(label, curves, "epoch", log="loss" in metric)
    return figures


def _measured(
    ranker: SemanticRanker, evaluation: Evaluation, others: Sequence[SemanticRanker]
) -> Iterator[str]:
    """Means with intervals; the best and the worst queries, each explained."""
    found = evaluation.summary().select("metric", "mean", "low", "high").iter_rows()
    rows = [[metric_label(one), f"{mean:.3f}", interval(*ends)] for one, mean, *ends in found]
    yield "## How well it ranks"
    yield table(["Metric", "Mean", "95 % interval"], rows)
    yield from caution("These means rest on", evaluation.measured_queries)
    values = evaluation.values[ranker.name][_METRIC]
    # Equal queries in a random order, and the same one each time.
    order = np.random.default_rng(0).permutation(np.flatnonzero(evaluation.task.counted))
    order = order[np.argsort(-values[order], kind="stable")]
    for head, chosen in (("Best", order[:_EXPLAINED]), ("Worst", order[::-1][:_EXPLAINED])):
        yield f"## {head} queries, explained"
        yield "The title ranked first, and the best one if that is another. Keywords are bold."
        for query in chosen.tolist():
            text = plain(evaluation.task.queries[query])
            yield f"### {text}: {metric_label(_METRIC)} {values[query]:.3f}"
            yield from _explained(ranker, others, evaluation, query)


def _explained(
    ranker: SemanticRanker, others: Sequence[SemanticRanker], evaluation: Evaluation, query: int
) -> Iterator[str]:
    """A query with its first title and its best one."""
    task, text = evaluation.task, evaluation.task.queries[query]
    first, grade = evaluation.top(ranker.name, query, 1).select("title", "grade").row(0)
    judged = task.judged.filter(pl.col("query") == query)
    best, highest = judged.select("title", "grade").row(judged["grade"].arg_max() or 0)
    titles = [(first, f"ranked first, grade {grade or 0:g}")]
    if not grade or grade < highest:
        titles.append((task.titles[best], f"grade {highest:g}, ranked lower"))
    for title, note in titles:
        yield f"**{plain(title)}** ({note})"
        beside = []
        for other in others:  # without one that knows nothing of a text
            with suppress(UserError):
                beside.append(explain(other, text, title))
        try:
            yield markdown(explain(ranker, text, title), beside)
        except UserError as error:
            yield plain(str(error))


def _topics(ranker: SemanticRanker, tower: RecurrentTower, texts: Sequence[str]) -> Iterator[str]:
    """The keywords of a recurrent tower's cells."""
    read = list(readings(tower, ranker.vocabulary, texts))
    rows = (
        [
            str(cell),
            f"{of_cell:,}",
            ", ".join(f"{plain(word)} {number}" for word, number in words[:10]),
        ]
        for cell, of_cell, words in topics(read)[:_TOPICS]
    )
    yield "## What its cells stand for"
    yield (
        f"The keywords of the five most active cells of each of {len(read):,} texts (Palangi et "
        "al. 2016, table III)."
    )
    yield table(["Cell", "Texts", "Keywords and the number of their texts"], rows, text=3)
