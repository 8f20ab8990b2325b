"""The page of a run: how it was trained, how well it ranks and why, what it learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

import numpy as np
from rich.console import Console

from dssm_tf.analysis.cells import topics
from dssm_tf.analysis.curves import read_history
from dssm_tf.analysis.explanation import Explanation, explain
from dssm_tf.analysis.graded import graded
from dssm_tf.analysis.html import contexts_html, graded_html, topics_html, winners_html
from dssm_tf.analysis.show import explained_html
from dssm_tf.analysis.survey import neighbours, readings, varied_contexts, won
from dssm_tf.common.charts import line_chart
from dssm_tf.common.errors import UserError
from dssm_tf.common.page import contents, page, table
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.intervals import caution, interval
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.model.run_files import CONFIG
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower

_METRIC = "ndcg@10"
_EXPLAINED = 5  # queries, best and worst
_SURVEYED = 2_000  # texts, at most
_TOPICS = 12  # cells
_NEIGHBOURS = 10  # words whose neighbours are shown
_WINNERS = 10  # texts whose winning words are shown
_CELLS = (
    "; keywords are bold, and the tables show how many of the most active cells each word moves, "
    "the word read first not counted (Palangi et al. 2016, tables I, II and V-X)"
)
_NEURONS = (
    "; words that win one of the five most active neurons are bold (Shen et al. 2014, table 3)"
)
_SHORT = 3  # letters of words too short to have neighbours worth a line


def report(
    run: Path,
    judgments: Sequence[Judgment] = (),
    corpus: Sequence[CorpusTitle] | None = None,
    *,
    beside: Mapping[str, Path] | None = None,
    words: Sequence[str] = (),
    console: Console | None = None,
) -> str:
    """A run as one HTML page without network.

    Args:
        run: what `dssm train` wrote.
        judgments: to measure it by, and to explain the best and worst queries of; may be empty.
        corpus: the titles to rank and to survey; those of the run, most clicked first, if None.
        beside: further runs: their curves, cosines and keywords stand beside this one's.
        words: looked at in different texts and among their neighbours; chosen if none.
        console: where to show progress.

    Raises:
        UserError: a run cannot be read, or nothing can be measured by the judgments.
    """
    ranker = SemanticRanker.load(run)
    if ranker.name in (beside or {}):
        raise UserError(
            f"--beside {ranker.name}: the run itself is called so; give another name, NAME=RUN."
        )
    others = {name: SemanticRanker.load(path, name) for name, path in (beside or {}).items()}
    surveyed = surveyed_titles(ranker, corpus)
    evaluation = None
    if judgments:
        evaluation = evaluate({ranker.name: ranker}, judgments, corpus, console=console)
    texts = surveyed
    if evaluation is not None:
        texts = list(dict.fromkeys(evaluation.task.queries))[:_SURVEYED]
    parts = [
        _about(ranker, run, evaluation),
        _curves(run, ranker.name, beside or {}),
        *([] if evaluation is None else _measured(ranker, evaluation, list(others.values()))),
        *([] if not judgments else _graded(ranker, others, judgments)),
        *(
            []
            if not isinstance(ranker.model.title_tower, CLSM)
            else _won(ranker, evaluation, texts)
        ),
        *_learned(ranker, texts, surveyed, words),
    ]
    head = f"<h1>{escape(ranker.name)}, seen from inside</h1>"
    return page(f"{ranker.name}: {run}", head + contents("\n".join(parts)))


def surveyed_titles(ranker: SemanticRanker, corpus: Sequence[CorpusTitle] | None) -> list[str]:
    """The titles that are looked at: of a corpus, else of the run's log, most clicked first."""
    known = sorted(ranker.prior.log_shares.items(), key=lambda one: (-one[1], one[0]))
    found = [one.title for one in corpus] if corpus else [title for title, _ in known]
    return list(dict.fromkeys(found))[:_SURVEYED]


def _about(ranker: SemanticRanker, run: Path, evaluation: Evaluation | None) -> str:
    """The lead, and what the run was made of."""
    lead = f"What {escape(str(run))} learned from its clicks."
    if evaluation is not None:
        mean = evaluation.mean(ranker.name, _METRIC)
        lead += f" {metric_label(_METRIC)} {mean:.3f} on {evaluation.measured_queries:,} queries."
    config = escape((run / CONFIG).read_text("utf-8"))
    return (
        f'<p class="lead">{lead}</p><p>{ranker.model.count_params():,} parameters, '
        f"{len(ranker.vocabulary.ngrams):,} letter trigrams, {len(ranker.prior.log_shares):,} "
        f"titles that were clicked; the log-prior of titles has weight {ranker.prior_weight:g}.</p>"
        f"<details><summary>Configuration</summary><pre>{config}</pre></details>"
    )


def _curves(run: Path, name: str, beside: Mapping[str, Path]) -> str:
    histories = {name: read_history(run)}
    histories |= {other: read_history(path) for other, path in beside.items()}
    charts = []
    for metric, label, logarithmic in (
        ("loss", "Training loss (nats), logarithmic", True),
        ("val_loss", "Validation loss (nats), logarithmic", True),
        (_METRIC, f"Validation {metric_label(_METRIC)}", False),
    ):
        lines = {
            other: [epoch[metric] for epoch in history]
            for other, history in histories.items()
            if history and metric in history[0]
        }
        if lines:
            charts.append(line_chart(label, lines, logarithmic=logarithmic))
    return f'<h2>Training</h2><div class="two">{"".join(charts)}</div>'


def _measured(
    ranker: SemanticRanker, evaluation: Evaluation, others: Sequence[SemanticRanker]
) -> list[str]:
    """Means with intervals; the best and the worst queries, each explained."""
    intervals = evaluation.intervals(ranker.name)
    rows = [
        [metric_label(one), f"{evaluation.mean(ranker.name, one):.3f}", interval(*intervals[one])]
        for one in evaluation.metrics
    ]
    parts = [
        "<h2>How well it ranks</h2>",
        table(["Metric", "Mean", "95 % interval"], rows),
        *(f"<p>{note}</p>" for note in caution("These means rest on", evaluation.measured_queries)),
    ]
    values = evaluation.values[ranker.name][_METRIC]
    counted = np.flatnonzero(evaluation.counted)
    # Equal queries in an order of chance, and the same one each time.
    order = np.random.default_rng(0).permutation(counted)
    order = order[np.argsort(-values[order], kind="stable")]
    for head, chosen in (
        ("Best queries", order[:_EXPLAINED]),
        ("Worst queries", order[::-1][:_EXPLAINED]),
    ):
        parts.append(f"<h2>{head}, explained</h2>")
        parts.append(
            '<p class="soft">Each word carries what it adds to the cosine: blue for, orange '
            f"against{_bold_words(ranker, others)}. "
            "The title ranked first, and the best one if that is another.</p>"
        )
        parts += [_query(ranker, others, evaluation, int(query), values[query]) for query in chosen]
    return parts


def _bold_words(ranker: SemanticRanker, others: Sequence[SemanticRanker]) -> str:
    towers = [one.model.query_tower for one in (ranker, *others)]
    if isinstance(towers[0], CLSM):
        return _NEURONS
    return _CELLS if any(isinstance(one, RecurrentTower) for one in towers) else ""


def _query(
    ranker: SemanticRanker,
    others: Sequence[SemanticRanker],
    evaluation: Evaluation,
    query: int,
    value: float,
) -> str:
    """A query with its first title and its best one, explained."""
    task, text = evaluation.task, evaluation.task.queries[query]
    first = evaluation.top(ranker.name, query, 1)[0]
    place = int(task.judged_grades[query].argmax())
    best, highest = task.judged_columns[query][place], task.judged_grades[query][place]
    shown = [(first.title, f"ranked first, grade {first.grade or 0:g}")]
    if not first.grade or first.grade < highest:
        shown.append((task.titles[best], f"grade {highest:g}, ranked lower"))
    inside = ""
    for place, (title, note) in enumerate(shown):
        try:
            found = explained_html(
                explain(ranker, text, title, trigrams=False),
                _explained_beside(others, text, title),
                ("title",) if place else ("query", "title"),
            )
        except UserError as error:
            found = f'<p class="soft">{escape(str(error))}</p>'
        inside += f"<h3>{escape(title)} <span class='tag'>{note}</span></h3>{found}"
    return (
        f'<details><summary><span class="query">{escape(text)}</span>'
        f'<span class="value">{metric_label(_METRIC)} {value:.3f}</span></summary>'
        f'<div class="inside">{inside}</div></details>'
    )


def _explained_beside(
    others: Sequence[SemanticRanker], query: str, title: str
) -> list[Explanation]:
    """Without a model that knows nothing of one of the texts."""
    found = []
    for other in others:
        with suppress(UserError):
            found.append(explain(other, query, title, trigrams=False))
    return found


def _graded(
    ranker: SemanticRanker, others: Mapping[str, SemanticRanker], judgments: Sequence[Judgment]
) -> list[str]:
    """Cosines of judged pairs beside their grades."""
    found = graded({ranker.name: ranker} | dict(others), judgments)
    return ["<h2>Scores beside grades</h2>", graded_html(found)]


def _won(ranker: SemanticRanker, evaluation: Evaluation | None, texts: Sequence[str]) -> list[str]:
    """Words that win a CLSM's neurons: of queries and the titles ranked first, else of titles."""
    vocabulary, model = ranker.vocabulary, ranker.model
    if evaluation is None:
        shown = {"Title": won(model.title_tower, vocabulary, texts[: 2 * _WINNERS])[:_WINNERS]}
    else:
        order = np.random.default_rng(0).permutation(np.flatnonzero(evaluation.counted))
        asked = [(evaluation.task.queries[query], evaluation.top(ranker.name, int(query), 1))
                 for query in order[: 2 * _WINNERS]]  # fmt: skip
        pairs = [(query, top[0].title) for query, top in asked if top and all(
                 map(vocabulary.words, (query, top[0].title)))][:_WINNERS]  # fmt: skip
        queries, titles = ([pair[side] for pair in pairs] for side in (0, 1))
        shown = {
            "Query": won(model.query_tower, vocabulary, queries),
            "Title that the model ranks first": won(model.title_tower, vocabulary, titles),
        }
    return [
        "<h2>Words that win its neurons</h2>",
        '<p class="soft">Bold: the words that win the five most active neurons of the maximum, '
        "each seen with its window (Shen et al. 2014, tables 3 and 8).</p>",
        winners_html(shown),
    ]


def _learned(
    ranker: SemanticRanker, texts: Sequence[str], titles: Sequence[str], words: Sequence[str]
) -> list[str]:
    """Cells and their topics, words in different texts, neighbours of words."""
    tower, vocabulary = ranker.model.title_tower, ranker.vocabulary
    parts = []
    if isinstance(tower, RecurrentTower):
        reader = ranker.model.query_tower if texts is not titles else tower
        parts.append("<h2>What its cells stand for</h2>")
        read = list(readings(reader, vocabulary, list(dict.fromkeys(texts))))
        parts.append(topics_html(topics(read)[:_TOPICS], len(read)))
    if isinstance(tower, RecurrentTower | CLSM):
        parts.append("<h2>The same word in different titles</h2>")
        parts.append(contexts_html(varied_contexts(tower, vocabulary, titles, words)))
    counts = Counter(word for title in titles for word in dict.fromkeys(vocabulary.words(title)))
    frequent = sorted(
        (word for word in counts if len(word) > _SHORT), key=lambda w: (-counts[w], w)
    )
    near = neighbours(tower, vocabulary, words or frequent[:_NEIGHBOURS], list(counts))
    rows = [
        [escape(word), ", ".join(f"{escape(one)} {cosine:.2f}" for one, cosine in found)]
        for word, found in near.items()
    ]
    heads = ["Word", "Words of the titles whose trigrams sum to the nearest vectors"]
    return [*parts, "<h2>Nearest words in the first layer</h2>", table(heads, rows, text=2)]
