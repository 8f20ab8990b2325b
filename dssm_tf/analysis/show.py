"""An explanation on a terminal, on a page and as figures; all show the same words and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.analysis.cells import ACTIVE, keywords, most_active
from dssm_tf.analysis.explanation import SCORE, Explanation, Side
from dssm_tf.analysis.neurons import winners
from dssm_tf.common.page import table


def columns(side: Side) -> dict[str, list[str]]:
    """What is known of a text's words, by head.

    Reference: Palangi et al. 2016, tables I, II and V-X; Shen et al. 2014, tables 3 and 8.
    """
    found = {
        "adds": [f"{adds:+.3f}" for adds in side.contributions],
        "lost without": [f"{lost:+.3f}" for lost in side.lost],
    }
    if side.inside is None:
        return found
    for reading in side.inside.readings:
        way = "right to left" if reading.backwards else "left to right"
        active = min(ACTIVE, reading.y.shape[1])
        counts = ["-" if count is None else str(count) for count in reading.moved()]
        found[f"cells moved of {active}, {way}"] = counts
    if side.inside.readings:
        found["keyword"] = ["yes" if key else "" for key in keywords(side.inside.readings)]
    if side.inside.features is not None:
        won = [place for _, place in winners(side.inside.features)]
        found["top neurons won"] = [str(won.count(place) or "") for place in range(len(side.words))]
    return found


def paragraphs(explanation: Explanation) -> list[str]:
    """What there is to say besides the numbers of the words."""
    if explanation.measure == SCORE:
        score = f"score {explanation.score:.3f}"
    else:
        score = str(explanation.parts)
    said = [f"{score[0].upper()}{score[1:]}.", *explanation.sentences(), *_trigrams(explanation)]
    if links := explanation.links():
        words = explanation.query.words, explanation.title.words
        named = (f"{one.neuron} ({words[0][one.query]}, {words[1][one.title]})" for one in links)
        said.append(f"Neurons that are high for both: {'; '.join(named)}.")
    elif explanation.query.inside is not None and explanation.query.inside.readings:
        cells = ", ".join(f"{cell} ({adds:+.3f})" for cell, adds in explanation.cells())
        said.append(f"Cells that query and title share, by what they add: {cells}.")
    return [*said, *explanation.notes, _method(explanation)]


def _trigrams(explanation: Explanation) -> list[str]:
    """Trigrams of the words that are like one of the title's, as a typing error is."""
    found = []
    inside = explanation.query.inside
    for place, known in enumerate(inside.trigrams if inside else []):
        word = explanation.query.words[place]
        if alike := explanation.alike(place):
            lost = " ".join(f"{ngram} {value:+.3f}" for ngram, value in known)
            shared = " ".join(alike[1])
            found.append(
                f"Without each letter trigram of '{word}' ('{alike[0]}' shares {shared}), the "
                f"cosine loses: {lost}."
            )
    return found


def _method(explanation: Explanation) -> str:
    """How the numbers were found."""
    sides = (explanation.query, explanation.title)
    errors = [side.standard_errors for side in sides if side.standard_errors is not None]
    said = "What words add: Shapley values"
    if errors:
        largest = max(float(one.max()) for one in errors)
        said += f", sampled for texts of many words with standard errors up to {largest:.4f}"
    starts = [f"{side.start:.3f} without the {side.name}" for side in sides if side.start]
    if starts:
        said += f"; the {explanation.measure} is {' and '.join(starts)}"
    return f"{said}."


def show(explanation: Explanation, console: Console) -> None:
    """Prints both texts, word by word, and what matches in sentences."""
    for side in (explanation.query, explanation.title):
        found = columns(side)
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        shown.add_column(side.name, overflow="fold")
        for head in found:
            shown.add_column(head, justify="right")
        for row in zip(side.words, *found.values(), strict=True):
            shown.add_row(*map(Text, row))
        console.print(shown)
    for said in paragraphs(explanation):
        console.print(said, highlight=False, markup=False, soft_wrap=True)


def explained_html(
    explanation: Explanation, beside: Sequence[Explanation] = (), sides: Sequence[str] = ()
) -> str:
    """Both texts, each word over what it adds, and what matches in sentences.

    Args:
        explanation: of the page's model.
        beside: of the same pair by other models.
        sides: with a table of their words; rows of `beside` are under the model's own.
    """
    both = (explanation.query, explanation.title)
    most = max(float(np.abs(side.contributions).max()) for side in both)
    said = paragraphs(explanation)
    if beside:
        scores = [f"{one.model} {one.cosine:.3f}" for one in (explanation, *beside)]
        said.append(f"{explanation.measure.capitalize()}: {', '.join(scores)}.")
    lines = "".join(_words_html(side, most) for side in both)
    tables = "".join(_table_html([explanation, *beside], side) for side in sides)
    return f'{lines}<p class="soft">{escape(" ".join(said))}</p>{tables}'


def _words_html(side: Side, most: float) -> str:
    cells = ""
    for word, adds in zip(bold_words(side), side.contributions.tolist(), strict=True):
        share = min(abs(adds) / most, 1.0) if most else 0.0
        kind = "for" if adds >= 0 else "against"
        cells += (
            f'<span class="word {kind}" style="--share:{100 * share:.0f}%">{word}'
            f"<small>{adds:+.2f}</small></span>"
        )
    return f'<p class="words"><span class="tag">{side.name}</span> {cells}</p>'


def bold_words(side: Side) -> list[str]:
    """Words as HTML: keywords of a recurrent model and winners of a CLSM's neurons are bold."""
    found = columns(side)
    marks = found.get("keyword", found.get("top neurons won", [""] * len(side.words)))
    return [
        f"<strong>{escape(word)}</strong>" if mark else escape(word)
        for word, mark in zip(side.words, marks, strict=True)
    ]


def _table_html(explanations: Sequence[Explanation], name: str) -> str:
    """Words side by side, rows by model, as in the tables of P16."""
    read = [(one.model, getattr(one, name)) for one in explanations]
    rows = [
        [f"{escape(model)}: {head}", *cells]
        for model, side in read
        if side.words == read[0][1].words
        for head, cells in columns(side).items()
    ]
    return table([name, *bold_words(read[0][1])], rows)


def write(explanation: Explanation, directory: Path) -> None:
    """Writes `explanation.json` and the figures, PNG and SVG, that the model has.

    Raises:
        UserError: figures cannot be drawn here.
    """
    from dssm_tf.common import figures

    text = json.dumps(explanation.to_json(), indent=2, ensure_ascii=False)
    (directory / "explanation.json").write_text(text + "\n", "utf-8")
    sides = (explanation.query, explanation.title)
    weights = {side.name: (side.words, side.contributions, side.lost) for side in sides}
    about = f"{explanation.model}: {explanation.measure} {explanation.cosine:.3f}"
    drawn = figures.word_weights(weights, about, explanation.measure)
    figures.save(drawn, directory, "words")
    readings = [(side.name, one) for side in sides if side.inside for one in side.inside.readings]
    largest = max((np.abs(reading.y).max() for _, reading in readings), default=0.0)
    for side, reading in readings:
        name = f"{side}{'-backwards' if reading.backwards else ''}"
        read = f"{side}, read from the {'right' if reading.backwards else 'left'}"
        # In the order of P16 fig. 4.
        gates = {f"{gate}(t)": reading.activations[gate] for gate in "ifocy"
                 if gate in reading.activations}  # fmt: skip
        drawn = figures.heat_maps(gates, reading.words, f"{explanation.model}: {read}")
        figures.save(drawn, directory, f"gates-{name}")
        cells = most_active(reading.y[-1])
        active = {"y(t)": reading.activations["y"][:, cells]}
        title = f"{len(cells)} most active cells: {read}"
        drawn = figures.heat_maps(active, reading.words, title, cells.tolist(), largest)
        figures.save(drawn, directory, f"active-{name}")
    if links := explanation.links():
        words = (explanation.query.words, explanation.title.words)
        title = f"{explanation.model}: neurons that are high for both"
        figures.save(figures.matched_words(words, links, title), directory, "neurons")
