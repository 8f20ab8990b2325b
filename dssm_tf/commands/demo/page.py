"""The demo's report: table, curves, examples and live answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dssm_tf.common.figures import lines
from dssm_tf.common.markdown import bullets, plain, table
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.reports.report import means
from dssm_tf.reports.wording import protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 3  # titles of each ranking
BENCHMARK = (
    "dssm benchmark --clicks CLICKS.tsv --corpus TITLES.tsv --judge-later 0.2 "
    "--systems bm25,dssm --out BENCH"
)
_WRITTEN = {
    "evaluation/report.html": "all questions, with significance tests",
    "preprocessed/report.html": "what preprocessing read and dropped",
    "runs/dssm/MODEL_CARD.md": "the model card of dssm",
    "data/clicks.tsv": "the click log",
    "metrics.json": "the figures as JSON",
}

Answers = Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]


def demo_report(
    evaluation: Evaluation, runs: Mapping[str, Any], answers: Answers, seconds: float
) -> tuple[str, dict[str, Figure]]:
    """The demo as Markdown, and its figures by name.

    Args:
        evaluation: of BM25 and the models.
        runs: a `dssm_tf.training.run_directory.Result` a model.
        answers: of each live query, the titles and scores of each system.
        seconds: wall time of the demo.
    """
    figures = {
        name: lines(label, {n: [e[key] for e in r.history] for n, r in runs.items()}, "epoch")
        for name, label, key in (
            ("ndcg", "Validation NDCG@10", "ndcg@10"),
            ("loss", "Validation loss (nats)", "val_loss"),
        )
    }
    training = [
        [
            plain(name),
            f"{run.epochs} (best {run.best_epoch})",
            f"{run.seconds:.0f} s",
            f"{run.prior_weight:g}",
        ]
        for name, run in runs.items()
    ]
    parts = [
        "# A click log becomes a ranker",
        f"Questions people typed and the pages they were answered from: "
        f"{evaluation.measured_queries:,} held-out questions rank all "
        f"{len(evaluation.task.titles):,} titles. {seconds:.0f} seconds from log to served "
        "model on this machine.",
        means(evaluation),
        "## Training",
        *(f"![]({name}.svg)" for name in figures),
        table(["Model", "Epochs", "Time", "Weight of the log-prior"], training),
        "## Where the models and BM25 differ",
        "Questions whose answer a semantic model ranks best and BM25 does not, then the reverse.",
        *_examples(evaluation),
        "## Asked of BM25 and the exported SavedModels",
        *_answers(answers),
        "## What the demo wrote",
        "\n".join(f"- [{what}]({place})" for place, what in _WRITTEN.items()),
        "## How it was measured",
        bullets(protocol(evaluation)),
        "## Your own log",
        "Would it beat what you have? Systems learn from the first 80 % of your clicks and are "
        "judged by the rest; you need no judgments.",
        f"    {BENCHMARK}",
        "Data: WebQuestions, Berant, Chou, Frostig and Liang 2013, CC BY 4.0.",
    ]
    return "\n\n".join(parts), figures


def _examples(evaluation: Evaluation, number: int = 4) -> Iterator[str]:
    """Questions on which BM25 and the first model differ most, both ways."""
    first, last = evaluation.systems[:2]
    gains = np.nan_to_num(evaluation.values[last]["ndcg@10"] - evaluation.values[first]["ndcg@10"])
    order = np.argsort(-gains, kind="stable")
    for query in [*order[:number], *order[::-1][: number // 2]]:
        yield f"### {plain(evaluation.task.queries[query])}: {gains[query]:+.2f}"
        found = {
            system: [
                f"**{plain(one.title)}**, grade {one.grade:g}" if one.grade else plain(one.title)
                for one in evaluation.top(system, int(query), _SHOWN)
            ]
            for system in (first, last)
        }
        yield _side_by_side(found)


def _answers(answers: Answers) -> Iterator[str]:
    for query, systems in answers.items():
        yield f"### {plain(query)}?"
        yield _side_by_side(
            {
                name: [f"{plain(title)} {score:.2f}" for title, score in found[:_SHOWN]]
                for name, found in systems.items()
            }
        )


def _side_by_side(found: Mapping[str, Sequence[str]]) -> str:
    """The first titles of each system."""
    rows = [
        [f"{rank + 1}", *(titles[rank] if rank < len(titles) else "" for titles in found.values())]
        for rank in range(_SHOWN)
    ]
    return table(["Rank", *map(plain, found)], rows, text=1 + len(found))
