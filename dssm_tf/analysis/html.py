"""Explanations, topics and contexts as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from dssm_tf.analysis.cells import keywords
from dssm_tf.analysis.explanation import Explanation, Side
from dssm_tf.analysis.survey import Contexts, Topic
from dssm_tf.common.page import table

_WORDS = 10  # of a topic
_OTHERS = 3  # nearest and farthest texts of a word


def explained_html(explanation: Explanation) -> str:
    """Both texts, each word over what it adds, and the match in sentences."""
    sides = (explanation.query, explanation.title)
    most = max(float(np.abs(side.contributions).max()) for side in sides)
    lines = "".join(_words(side, most) for side in sides)
    said = " ".join([*explanation.sentences(), *explanation.notes])
    return f'{lines}<p class="soft">{escape(said)}</p>'


def _words(side: Side, most: float) -> str:
    keys = keywords(side.readings) if side.readings else [False] * len(side.words)
    moved = [reading.moved() for reading in side.readings]
    cells = ""
    for place, (word, adds) in enumerate(zip(side.words, side.contributions, strict=True)):
        share = min(abs(float(adds)) / most, 1.0) if most else 0.0
        kind = "for" if adds >= 0 else "against"
        shown = f"<strong>{escape(word)}</strong>" if keys[place] else escape(word)
        counts = " ".join("-" if of[place] is None else str(of[place]) for of in moved)
        below = f'<small class="soft">{counts}</small>' if moved else ""
        cells += (
            f'<span class="word {kind}" style="--share:{100 * share:.0f}%">{shown}'
            f"<small>{adds:+.2f}</small>{below}</span>"
        )
    return f'<p class="words"><span class="tag">{side.name}</span> {cells}</p>'


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
        table(["Cell", "Texts", ("Words that moved it most", None)], rows, text=1)
        + f'<p class="soft">Of each of {texts:,} texts, the five most active cells, and of each of '
        "them the word at which it changed most (Palangi et al. 2016, table III).</p>"
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
