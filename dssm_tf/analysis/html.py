"""Explanations, topics and contexts as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from dssm_tf.analysis.cells import ACTIVE, keywords
from dssm_tf.analysis.explanation import Explanation, Side
from dssm_tf.analysis.graded import Graded
from dssm_tf.analysis.neurons import winners
from dssm_tf.analysis.survey import Contexts, Topic, Won
from dssm_tf.analysis.topic_table import TopicTable
from dssm_tf.common.page import table

_WORDS = 10  # of a topic
_OTHERS = 3  # nearest and farthest texts of a word


def explained_html(
    explanation: Explanation,
    beside: Sequence[Explanation] = (),
    sides: Sequence[str] = ("query", "title"),
) -> str:
    """Both texts, each word over what it adds, the match in sentences, and keyword tables.

    Args:
        explanation: of the page's model.
        beside: of the same pair by other models.
        sides: that have a keyword table, which is the same whatever the other text.
    """
    both = (explanation.query, explanation.title)
    most = max(float(np.abs(side.contributions).max()) for side in both)
    lines = "".join(_words(side, most) for side in both)
    said = [*explanation.sentences(), *_neurons(explanation), *explanation.notes]
    scores = [f"{one.model} {one.cosine:.3f}" for one in (explanation, *beside)]
    said.append(f"{explanation.measure.capitalize()}: {', '.join(scores)}.")
    tables = keyword_tables([explanation, *beside], sides)
    return f'{lines}<p class="soft">{escape(" ".join(said))}</p>{tables}'


def _words(side: Side, most: float) -> str:
    keys = emphasised(side)
    cells = ""
    for place, (word, adds) in enumerate(zip(side.words, side.contributions, strict=True)):
        share = min(abs(float(adds)) / most, 1.0) if most else 0.0
        kind = "for" if adds >= 0 else "against"
        shown = f"<strong>{escape(word)}</strong>" if keys[place] else escape(word)
        cells += (
            f'<span class="word {kind}" style="--share:{100 * share:.0f}%">{shown}'
            f"<small>{adds:+.2f}</small></span>"
        )
    return f'<p class="words"><span class="tag">{side.name}</span> {cells}</p>'


def emphasised(side: Side) -> list[bool]:
    """Which words are bold: keywords of a recurrent model, winners of a CLSM's top neurons.

    Reference: Palangi et al. 2016, sec. V-A2; Shen et al. 2014, tables 3 and 8.
    """
    if side.features is not None:
        won = {place for _, place in winners(side.features)}
        return [place in won for place in range(len(side.words))]
    return keywords(side.readings) if side.readings else [False] * len(side.words)


def _neurons(explanation: Explanation) -> list[str]:
    """The neurons of a CLSM that are high on both sides, with the words that win them."""
    if not (found := explanation.links()):
        return []
    words = explanation.query.words, explanation.title.words
    named = (f"{one.neuron} ({words[0][one.query]}, {words[1][one.title]})" for one in found)
    return [f"Neurons that are high for both: {'; '.join(named)}."]


def keyword_tables(explanations: Sequence[Explanation], sides: Sequence[str]) -> str:
    """How many of its most active cells each word moves, of one model or of several.

    Words stand side by side as in P16, tables I, II, IX and X; a row is a direction of a model, so
    that an RNN's neurons stand under an LSTM-RNN's cells as in tables V-VIII. A text of one word
    has no table: the word read first is not counted.
    """
    tables = []
    for name in sides:
        read = [(one.model, getattr(one, name)) for one in explanations]
        words = read[0][1].words
        rows = []
        for model, side in read:
            if side.words != words or len(words) == 1:
                continue
            for reading in side.readings:
                active = min(ACTIVE, reading.y.shape[1])
                way = "right to left" if reading.backwards else "left to right"
                counts = ["-" if one is None else str(one) for one in reading.moved()]
                rows.append([f"{escape(model)}, {way}: cells moved, of {active}", *counts])
        if rows:
            keys = emphasised(read[0][1])
            heads = [
                f"<strong>{escape(word)}</strong>" if key else escape(word)
                for word, key in zip(words, keys, strict=True)
            ]
            tables.append(table([name, *heads], rows))
    return "".join(tables)


def topics_html(topics: Sequence[Topic], texts: int) -> str:
    """Cells and their words, in the layout of P16, table III."""
    rows = []
    for topic in topics:
        words = ", ".join(
            f"{escape(word)} {number}" if number > 1 else escape(word)
            for word, number in topic.words[:_WORDS]
        )
        more = len(topic.words) - _WORDS
        rows.append(
            [
                f"cell {topic.cell}",
                f"{topic.texts:,}",
                words + (f" and {more:,} more" if more > 0 else ""),
            ]
        )
    return (
        table(["Cell", "Texts", "Words that moved it most"], rows, text=3)
        + f'<p class="soft">Of each of {texts:,} texts, the five most active cells, and of each of '
        "them the word at which it changed most (Palangi et al. 2016, table III).</p>"
    )


def topic_table_html(found: TopicTable) -> str:
    """Texts by cells, in the layout of P16, table III."""
    rows = [
        [
            escape(" ".join(words)),
            *(escape(", ".join(keywords_.get(cell, ()))) for cell in found.cells),
        ]
        for words, keywords_ in zip(found.texts, found.keywords, strict=True)
    ]
    return (
        '<div class="cells">'
        + table(["Text", *(f"cell {one}" for one in found.cells)], rows, text=len(found.cells) + 1)
        + '</div><p class="soft">The words that each cell picked up: they changed it by more than '
        "half of what it says in the end, and it is among the text's five most active; the word "
        "read first is not counted (Palangi et al. 2016, table III). Of each cell the texts in "
        "which it says most.</p>"
    )


def winners_html(columns: Mapping[str, Sequence[Won]]) -> str:
    """Texts with the words that win neurons in bold, as in S14, tables 3 and 8."""
    rows = [[_bold(one) for one in row] for row in zip(*columns.values(), strict=True)]
    return table(list(columns), rows, text=len(columns))


def _bold(text: Won) -> str:
    return " ".join(
        f"<strong>{escape(word)}</strong>" if place in text.places else escape(word)
        for place, word in enumerate(text.words)
    )


def graded_html(found: Graded) -> str:
    """Cosines of judged pairs beside their grades, as in P16, supplement C."""
    models = list(found.scores)
    heads = ["Grade", "Pairs", *(f"{escape(model)}: middle, half of them" for model in models)]
    rows = []
    for grade in found.grades:
        row = [f"{grade:g}", f"{int((found.labels == grade).sum()):,}"]
        for model in models:
            low, middle, high = found.quartiles(model, grade)
            row.append(f"{middle:.3f} <span class='spread'>{low:.3f} to {high:.3f}</span>")
        rows.append(row)
    agreement = [found.agreement(model) for model in models]
    if len(found.grades) > 1 and not np.isnan(agreement).all():
        row = [
            "Rank correlation (Spearman)",
            f"{len(found.pairs):,}",
            *(f"{one:.3f}" for one in agreement),
        ]
        rows.append(row)
    examples = [
        [
            escape(pair.query), escape(pair.title), f"{pair.grade:g}",
            *(f"{found.scores[model][place]:.3f}" for model in models),
        ]
        for place in found.examples()
        for pair in [found.pairs[place]]
    ]  # fmt: skip
    said = "The cosine that the paper calls score, beside the grade that a pair was judged."
    if len(found.grades) == 1:
        said += f" All judgments are of grade {found.grades[0]:g}: there is nothing to compare."
    if found.drawn_from > len(found.pairs):
        said += f" {len(found.pairs):,} of {found.drawn_from:,} pairs, drawn by lot."
    return (
        f'<p class="soft">{said} Below, pairs of each grade drawn by lot (Palangi et al. 2016, '
        "supplement C).</p>"
        + table(heads, rows)
        + table(["Query", "Title", "Grade", *map(escape, models)], examples, text=2)
    )


def contexts_html(found: Sequence[Contexts]) -> str:
    """Words in different company, in the layout of S14, table 2."""
    if not found:
        return '<p class="soft">No word stands in enough different titles to compare.</p>'
    tables = []
    for one in found:
        near, far = one.others[:_OTHERS], one.others[_OTHERS:][-_OTHERS:]
        rows = [[_marked(text, one.word), f"{cosine:.3f}"] for text, cosine in [*near, *far]]
        tables.append(table([_marked(one.text, one.word), "cosine"], rows))
    return (
        f'<div class="two">{"".join(tables)}</div><p class="soft">How alike the model finds the '
        "word in other titles, the nearest and the farthest (Shen et al. 2014, table 2).</p>"
    )


def _marked(words: Sequence[str], word: str) -> str:
    return " ".join(f"<em>{escape(one)}</em>" if one == word else escape(one) for one in words)
