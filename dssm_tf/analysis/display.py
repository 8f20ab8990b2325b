"""An explanation on the terminal and as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.analysis.cells import ACTIVE, Reading, keywords, most_active
from dssm_tf.analysis.explanation import SCORE, Explanation, Side
from dssm_tf.analysis.neurons import winners

_BAR = 12  # characters


def show(explanation: Explanation, console: Console) -> None:
    """Prints both texts with their words' weights, and what matches in sentences."""
    most = max(np.abs(side.contributions).max() for side in (explanation.query, explanation.title))
    for side in (explanation.query, explanation.title):
        console.print()
        console.print(_coloured(side, most), soft_wrap=True)
        console.print(_table(side, most))
    console.print(_score(explanation), highlight=False, soft_wrap=True)
    for sentence in explanation.sentences():
        console.print(f"  {sentence}", highlight=False, markup=False, soft_wrap=True)
    for line in (*_letters(explanation), *_shared(explanation)):
        console.print(Text(line), soft_wrap=True)
    for note in (*explanation.notes, *_how(explanation)):
        console.print(Text(note, style="dim"), soft_wrap=True)


def _score(explanation: Explanation) -> str:
    if explanation.measure == SCORE:
        return f"score {explanation.score:.3f}"
    prior = f" {explanation.prior:+.3f} for the title's clicks" if explanation.prior else ""
    return f"score {explanation.score:.3f} = cosine {explanation.cosine:.3f}{prior}"


def _letters(explanation: Explanation) -> list[str]:
    """What the trigrams add of words that are like one of the title's, as a typing error is."""
    found = []
    for place, word in enumerate(explanation.query.words):
        alike = explanation.alike(place)
        if alike and explanation.query.trigrams:
            known = explanation.query.trigrams[place]
            adds = " ".join(f"{ngram} {value:+.3f}" for ngram, value in known)
            shared = " ".join(alike[1])
            found.append(f"  Letter trigrams of '{word}' ('{alike[0]}' shares {shared}): {adds}.")
    return found


def _shared(explanation: Explanation) -> list[str]:
    """The cells that query and title share, or the neurons, with the words that win them."""
    if links := explanation.links():
        words = explanation.query.words, explanation.title.words
        named = (f"{one.neuron} ({words[0][one.query]}, {words[1][one.title]})" for one in links)
        return [f"  Neurons that are high for both: {'; '.join(named)}."]
    if not explanation.query.readings:
        return []
    cells = ", ".join(f"{cell} ({adds:+.3f})" for cell, adds in explanation.cells())
    return [f"  Cells that query and title share, by what they add: {cells}."]


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
    largest = max((np.abs(one.y).max() for side in sides for one in side.readings), default=0.0)
    for side in sides:
        for reading in side.readings:
            name = f"{side.name}{'-backwards' if reading.backwards else ''}"
            read = f"{side.name}, read from the {'right' if reading.backwards else 'left'}"
            gates = {f"{name}(t)": reading.activations[name] for name in _names(reading)}
            drawn = figures.heat_maps(gates, side.words, f"{explanation.model}: {read}")
            figures.save(drawn, directory, f"gates-{name}")
            cells = most_active(reading.y[-1])
            active = {"y(t)": reading.activations["y"][:, cells]}
            title = f"{len(cells)} most active cells: {read}"
            drawn = figures.heat_maps(active, side.words, title, cells.tolist(), largest)
            figures.save(drawn, directory, f"active-{name}")
    if explanation.query.features is not None:
        words = (explanation.query.words, explanation.title.words)
        title = f"{explanation.model}: neurons that are high for both"
        drawn = figures.matched_words(words, explanation.links(), title)
        figures.save(drawn, directory, "neurons")


def _names(reading: Reading) -> list[str]:
    """Gates, cell and output in the order of P16 fig. 4."""
    return [name for name in "ifocy" if name in reading.activations]


def _coloured(side: Side, most: float) -> Text:
    """The words, darker the more they add: blue for, orange against."""
    text = Text(f"{side.name:<7}")
    for word, adds in zip(side.words, side.contributions, strict=True):
        depth = min(abs(adds) / most, 1) if most else 0.0
        end = (31, 95, 168) if adds >= 0 else (224, 130, 20)
        red, green, blue = (round(255 + depth * (one - 255)) for one in end)
        ink = "white" if depth > 0.55 and adds >= 0 else "black"
        text.append(f" {word} ", style=f"{ink} on rgb({red},{green},{blue})")
        text.append(" ")
    return text


def _table(side: Side, most: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("word", overflow="fold")
    table.add_column("adds", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("lost without", justify="right", no_wrap=True)
    counts = [reading.moved() for reading in side.readings]
    for reading in side.readings:
        table.add_column("cells moved " + ("<-" if reading.backwards else "->"), justify="right")
    if counts:
        table.add_column("keyword", justify="center")
        keys = keywords(side.readings)
    won: list[int] = []
    if side.features is not None:
        table.add_column("top neurons won", justify="right")
        won = [place for _, place in winners(side.features)]
    for place, word in enumerate(side.words):
        adds = float(side.contributions[place])
        cells = [word, f"{adds:+.3f}", _bar(adds, most), f"{side.lost[place]:+.3f}"]
        cells += ["first" if one[place] is None else str(one[place]) for one in counts]
        if counts:
            cells.append("yes" if keys[place] else "")
        if side.features is not None:
            cells.append(str(won.count(place)) if place in won else "")
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _bar(adds: float, most: float) -> str:
    length = round(_BAR * abs(adds) / most) if most else 0
    return ("+" if adds >= 0 else "-") * length


def _how(explanation: Explanation) -> list[str]:
    """By which method the numbers were found, and what it misses."""
    found = []
    for side in (explanation.query, explanation.title):
        text = f"What the {side.name}'s words add: {side.method}"
        if side.spread:
            text += f", each with a standard error of {side.spread:.4f} or less"
        if side.gap:
            text += (
                f"; with no word known the cosine is {side.start:.3f}, and {side.gap:+.4f} of it "
                "is missed"
            )
        elif side.start:
            text += f"; without words the {explanation.measure} is {side.start:.3f}"
        found.append(text + ".")
    same = found[0].replace("query's", "title's") == found[1]
    found = ["What words add: " + found[0].split(": ")[1]] if same else found
    if explanation.query.readings:
        found.append(
            f"Cells moved: of the {ACTIVE} most active, by the paper's rule; a word is a keyword "
            "if it moves more than 40 % of them"
            + (" from both directions." if len(explanation.query.readings) > 1 else ".")
        )
    return found
