"""The demo's page: table, curves, examples and live answers, in one file without network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from dssm_tf.common.charts import line_chart
from dssm_tf.common.page import page, table
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.reports.page import means_table
from dssm_tf.reports.wording import protocol

_SHOWN = 3  # titles of each ranking
BENCHMARK = (
    "dssm benchmark --clicks CLICKS.tsv --corpus TITLES.tsv --judge-later 0.2 "
    "--systems bm25,dssm --out BENCH"
)


def demo_page(
    evaluation: Evaluation,
    runs: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]],
    seconds: float,
) -> str:
    """The whole page.

    Args:
        evaluation: of BM25 and the models.
        runs: a `dssm_tf.training.run_directory.Result` a model.
        answers: of each live query, the titles and scores of each system.
        seconds: wall time of the demo.
    """
    curves = {
        "Validation NDCG@10": {n: [e["ndcg@10"] for e in r.history] for n, r in runs.items()},
        "Validation loss (nats)": {n: [e["val_loss"] for e in r.history] for n, r in runs.items()},
    }
    training = [
        [
            escape(name),
            f"{run.epochs} (best {run.best_epoch})",
            f"{run.seconds:.0f} s",
            f"{run.prior_weight:g}",
        ]
        for name, run in runs.items()
    ]
    parts = [
        "<h1>A click log becomes a ranker</h1>",
        f'<p class="lead">Questions people typed and the pages they were answered from: '
        f"{evaluation.measured_queries:,} held-out questions rank all "
        f"{len(evaluation.task.titles):,} titles. {seconds:.0f} seconds from log to served "
        "model on this machine.</p>",
        means_table(evaluation),
        f'<p class="soft">{escape(" ".join(protocol(evaluation)))}</p>',
        "<h2>Training</h2>",
        '<div class="two">'
        + "".join(line_chart(t, lines) for t, lines in curves.items())
        + "</div>",
        table(["Model", "Epochs", "Time", "Weight of the log-prior"], training),
        "<h2>Where the models and BM25 differ</h2>",
        '<p class="soft">Questions whose answer a semantic model ranks best and BM25 does not, '
        "then the reverse.</p>",
        *_examples(evaluation),
        "<h2>Asked of BM25 and the exported SavedModels</h2>",
        *_answers(answers),
        "<h2>What the demo wrote</h2>",
        f"<ul>{_links()}</ul>",
        "<h2>Your own log</h2>",
        "<p>Would it beat what you have? The last fifth of your clicks judges what was learned "
        "from the rest; no judgments are needed.</p>",
        f"<pre>{escape(BENCHMARK)}</pre>",
        '<p class="soft">Data: WebQuestions, Berant, Chou, Frostig and Liang 2013, CC BY 4.0.</p>',
    ]
    return page("dssm-tf demo", "\n".join(parts))


def _links() -> str:
    """What else there is to look at, relative to the page."""
    return "".join(
        f'<li><a href="{place}">{what}</a></li>'
        for place, what in (
            ("evaluation/report.html", "all questions, with significance tests"),
            ("preprocessed/report.html", "what preprocessing read and dropped"),
            ("runs/dssm/MODEL_CARD.md", "the model card of dssm"),
            ("data/clicks.tsv", "the click log"),
            ("metrics.json", "the figures as JSON"),
        )
    )


def _examples(evaluation: Evaluation, number: int = 4) -> list[str]:
    """Questions on which BM25 and the first model differ most, both ways."""
    first, last = evaluation.systems[:2]
    gains = np.nan_to_num(evaluation.values[last]["ndcg@10"] - evaluation.values[first]["ndcg@10"])
    order = np.argsort(-gains, kind="stable")
    chosen = [*order[:number], *order[::-1][: number // 2]]
    parts = []
    for query in chosen:
        kind = "gain" if gains[query] > 0 else "loss"
        sides = "".join(
            _titles(system, [(o.title, f"grade {o.grade:g}" if o.grade else "") for o in top])
            for system in (first, last)
            for top in [evaluation.top(system, int(query), _SHOWN)]
        )
        parts.append(
            f'<details open><summary><span class="query">{escape(evaluation.task.queries[query])}'
            f'</span><span class="value {kind}">{gains[query]:+.2f}</span></summary>'
            f'<div class="inside"><div class="pair">{sides}</div></div></details>'
        )
    return parts


def _answers(answers: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]) -> list[str]:
    parts = []
    for query, systems in answers.items():
        sides = "".join(
            _titles(name, [(title, f"{score:.2f}") for title, score in found[:_SHOWN]])
            for name, found in systems.items()
        )
        parts.append(f'<h3>{escape(query)}?</h3><div class="pair">{sides}</div>')
    return parts


def _titles(system: str, titles: Sequence[tuple[str, str]]) -> str:
    """A system's first titles, each with what is said of it; `grade ...` marks a relevant one."""
    lines = "".join(
        f'<li class="{"good" if about.startswith("grade") else ""}">'
        f'<span class="rank">{rank}</span><span class="title">{escape(title)}</span>'
        f'<span class="grade">{about}</span></li>'
        for rank, (title, about) in enumerate(titles, start=1)
    )
    shown = lines or "<li>nothing found</li>"
    return f'<div><h4>{escape(system)}</h4><ol class="titles">{shown}</ol></div>'
