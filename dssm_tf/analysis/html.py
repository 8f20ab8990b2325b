"""What a survey of many texts found, as HTML."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

from dssm_tf.analysis.cells import Topic
from dssm_tf.analysis.graded import Graded
from dssm_tf.analysis.survey import Contexts, Won
from dssm_tf.common.page import table

_WORDS = 10  # of a topic
_OTHERS = 3  # nearest and farthest texts of a word


def topics_html(found: Sequence[Topic], texts: int) -> str:
    """Cells, their keywords, and the texts they come from."""
    rows = []
    for topic in found:
        words = ", ".join(
            f"{escape(word)} {number}" if number > 1 else escape(word)
            for word, number in topic.words[:_WORDS]
        )
        more = len(topic.words) - _WORDS
        examples = "; ".join(marked(text, keys, "strong") for text, keys in topic.examples)
        more_words = f" and {more:,} more" if more > 0 else ""
        rows.append([f"cell {topic.cell}", f"{topic.texts:,}", words + more_words, examples])
    return (
        table(["Cell", "Texts", "Keywords", "Texts in which it is strongest"], rows, text=4)
        + f'<p class="soft">The keywords of the five most active cells of each of {texts:,} texts '
        "(Palangi et al. 2016, table III): they change the cell by more than half of its value "
        "after the last word. The word read first is not counted.</p>"
    )


def winners_html(columns: Mapping[str, Sequence[Won]]) -> str:
    """Texts with the words that win neurons in bold, as in S14, tables 3 and 8."""
    rows = [
        [marked(one.words, one.places, "strong") for one in row]
        for row in zip(*columns.values(), strict=True)
    ]
    return table(list(columns), rows, text=len(columns))


def marked(words: Sequence[str], chosen: Collection[object], tag: str) -> str:
    """A text as HTML with some of its words, or the words at some places, in a tag."""
    return " ".join(
        f"<{tag}>{escape(word)}</{tag}>" if word in chosen or place in chosen else escape(word)
        for place, word in enumerate(words)
    )


def graded_html(found: Graded) -> str:
    """Cosines of judged pairs beside their grades, as in P16, supplement C."""
    models = list(found.scores)
    rows = [
        [
            escape(pair.query), escape(pair.title), f"{pair.grade:g}",
            *(f"{found.scores[model][place]:.3f}" for model in models),
        ]
        for place in found.examples()
        for pair in [found.pairs[place]]
    ]  # fmt: skip
    ranked = [f"{escape(model)} {rho:.3f}" for model, rho in found.spearman().items()]
    said = (
        f"Spearman's rank correlation of cosines and grades over {len(found.pairs):,} judged "
        f"pairs: {', '.join(ranked)}. "
        if ranked
        else "All grades or all cosines are equal: there is nothing to correlate. "
    )
    return (
        f'<p class="soft">{said}Pairs of each grade, sampled (Palangi et al. 2016, supplement C):'
        "</p>" + table(["Query", "Title", "Grade", *map(escape, models)], rows, text=2)
    )


def contexts_html(found: Sequence[Contexts]) -> str:
    """Words in different contexts, in the layout of S14, table 2."""
    if not found:
        return '<p class="soft">No word is in enough different titles to compare.</p>'
    tables = []
    for one in found:
        near, far = one.others[:_OTHERS], one.others[_OTHERS:][-_OTHERS:]
        rows = [[marked(text, [one.word], "em"), f"{cosine:.3f}"] for text, cosine in [*near, *far]]
        tables.append(table([marked(one.text, [one.word], "em"), "cosine"], rows))
    return (
        f'<div class="two">{"".join(tables)}</div><p class="soft">How alike the model finds the '
        "word in other titles, the nearest and the farthest (Shen et al. 2014, table 2).</p>"
    )
