"""The report of a run: training curves, metrics, explained queries, and topics of its cells."""

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
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.intervals import small_sample_warning
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.model.load_run import RunRanker, load_run
from dssm_tf.model.run_files import CONFIG, HISTORY, load_titles, training_log
from dssm_tf.reports.figures import draw_curves
from dssm_tf.reports.formatting import mean_cells, overlap_lines
from dssm_tf.reports.markdown import bullets, plain, table
from dssm_tf.tables.cells import shown_text
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METRIC = "ndcg@10"
_EXPLAINED_QUERIES = 5  # number of best and of worst queries
_TOPIC_TEXTS = 2_000  # maximum number of texts for topics
_TOPIC_ROWS = 12  # cells in the table


def report(
    run: Path,
    judgments: Sequence[Judgment] = (),
    corpus: Sequence[CorpusTitle] | None = None,
    *,
    beside: Mapping[str, Path] | None = None,
) -> tuple[str, dict[str, Figure]]:
    """Writes the report of a run as Markdown.

    Args:
        run: directory that `dssm train` wrote.
        judgments: judgments for metrics and for the best and worst queries; may be empty.
        corpus: titles to rank; those of the judgments if None.
        beside: further runs by name. The report has their curves, scores and keywords, too.

    Returns:
        Markdown, and its figures by name.

    Raises:
        UserError: a run cannot be read, or the judgments have no query that can be measured.
    """
    ranker = load_run(run)
    if ranker.name in (beside or {}):
        raise UserError(
            f"--beside {ranker.name}: the reported run has this name; choose another with NAME=RUN."
        )
    others = [load_run(path, name) for name, path in (beside or {}).items()]
    log_priors = ranker.prior.log_priors
    evaluation: Evaluation | None = None
    texts: list[Any] = sorted(log_priors, key=lambda title: (-log_priors[title], title))
    facts = f"{len(texts):,} clicked titles; their log-prior has weight {ranker.prior_weight:g}"
    if not texts:
        texts = [title.text for title in load_titles(run)]
        facts = f"{len(texts):,} titles, none of which was clicked"
    if judgments:
        training_logs = {} if (log := training_log(run)) is None else {ranker.name: log}
        evaluation = evaluate({ranker.name: ranker}, judgments, corpus, training_logs=training_logs)
        texts = list(dict.fromkeys(evaluation.task.queries))
    figures = _curves({ranker.name: run, **(beside or {})})
    sections = [
        f"# Report of {plain(ranker.name)}",
        f"The run {plain(str(run))} has {ranker.model.count_params():,} parameters and {facts}.",
        "## Training",
        *(f"![]({name}.svg)" for name in figures),
    ]
    if evaluation is not None:
        sections += _metrics_section(ranker, evaluation, others)
    tower = ranker.model.query_tower if evaluation else ranker.model.title_tower
    if isinstance(tower, RecurrentTower):
        sections += _topics_section(ranker, tower, texts[:_TOPIC_TEXTS])
    sections += ["## Configuration", f"```\n{(run / CONFIG).read_text('utf-8').strip()}\n```"]
    return "\n\n".join(sections), figures


def _curves(runs: Mapping[str, Path]) -> dict[str, Figure]:
    """Losses and NDCG of the first training of each run by epoch (Palangi et al. 2016, fig. 7)."""
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
            figures[name] = draw_curves(label, curves, "epoch", log="loss" in metric)
    return figures


def _metrics_section(
    ranker: RunRanker, evaluation: Evaluation, others: Sequence[RunRanker]
) -> Iterator[str]:
    """Yields metrics with their intervals, then the best and the worst queries, explained."""
    rows = [
        [metric_label(cell["metric"]), cell["text"], cell["interval"]]
        for cell in mean_cells(evaluation)[ranker.name]
    ]
    has_keywords = isinstance(ranker.model.query_tower, CLSM | RecurrentTower)
    yield "## How well it ranks"
    yield bullets(overlap_lines(evaluation))
    yield table(["Metric", "Mean", "95 % interval"], rows)
    yield from small_sample_warning("These means are based on", evaluation.measured_queries)
    values = evaluation.values[ranker.name][_METRIC]
    # Ties are in a random order that is the same in each run.
    order = np.random.default_rng(0).permutation(np.flatnonzero(evaluation.task.has_relevant))
    order = order[np.argsort(-values[order], kind="stable")]
    for heading, selected in (
        ("Best", order[:_EXPLAINED_QUERIES]),
        ("Worst", order[::-1][:_EXPLAINED_QUERIES]),
    ):
        yield f"## {heading} queries, explained"
        yield (
            "Each query has the title ranked first, and the title with the best grade if it "
            f"differs.{' Keywords are bold.' * has_keywords}"
        )
        for query in selected.tolist():
            text = plain(shown_text(evaluation.task.queries[query]))
            yield f"### {text}: {metric_label(_METRIC)} {values[query]:.3f}"
            yield from _explain_query(ranker, others, evaluation, query)


def _explain_query(
    ranker: RunRanker, others: Sequence[RunRanker], evaluation: Evaluation, query: int
) -> Iterator[str]:
    """Yields explanations of a query with its first title and its title of the highest grade."""
    task, text = evaluation.task, evaluation.task.queries[query]
    first, grade = evaluation.top(ranker.name, query, 1).select("title", "grade").row(0)
    judged = task.judged.filter(pl.col("query") == query)
    best, highest = judged.select("title", "grade").row(judged["grade"].arg_max() or 0)
    titles = [(first, f"ranked first, grade {grade or 0:g}")]
    if not grade or grade < highest:
        titles.append((task.titles[best], f"grade {highest:g}, ranked lower"))
    for title, note in titles:
        yield f"**{plain(shown_text(title))}** ({note})"
        other_explanations = []
        for other in others:
            with suppress(UserError):  # its vocabulary has no n-gram of a text
                other_explanations.append(explain(other, text, title))
        try:
            yield markdown(explain(ranker, text, title), other_explanations)
        except UserError as error:
            yield plain(str(error))


def _topics_section(
    ranker: RunRanker, tower: RecurrentTower, texts: Sequence[str]
) -> Iterator[str]:
    """Yields the table of the keywords of a recurrent tower's cells."""
    text_readings = list(readings(tower, ranker.vocabulary, texts))
    rows = (
        [
            str(topic.cell),
            f"{topic.text_count:,}",
            ", ".join(f"{plain(word)} {count}" for word, count in topic.keywords[:10]),
        ]
        for topic in topics(text_readings)[:_TOPIC_ROWS]
    )
    yield "## Topics of its cells"
    yield (
        f"The keywords of the five most active cells of each of {len(text_readings):,} texts "
        "(Palangi et al. 2016, table III)."
    )
    yield table(["Cell", "Texts", "Keywords, each with its number of texts"], rows, text_columns=3)
