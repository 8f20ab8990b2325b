"""Renders an explanation as Markdown, JSON and figures; all show the same words and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dssm_tf.analysis.cells import most_active
from dssm_tf.analysis.explanation import Explanation
from dssm_tf.analysis.match_explanation import MatchedText, MatchExplanation
from dssm_tf.analysis.shapley_explanation import ShapleyExplanation, TextExplanation
from dssm_tf.reports import markdown as report
from dssm_tf.reports.markdown import bullets, plain, table, with_bold

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def markdown(explanation: Explanation, others: Sequence[Explanation] = ()) -> str:
    """A table of the words of each text, then sentences about the match.

    Args:
        explanation: the explanation of a query and a title.
        others: explanations of the same pair by other models. A table has further columns for each
            of them that splits the text into the same words.
    """
    tables = []
    for name in ("query", "title"):
        text: TextExplanation | MatchedText = getattr(explanation, name)
        columns = text.columns()
        # Keywords of a recurrent model and winners of a CLSM's neurons are bold.
        bold = columns.get("keyword", columns.get("top neurons won", ()))
        for other in others:
            other_text: TextExplanation | MatchedText = getattr(other, name)
            if other_text.words == text.words:
                columns |= {
                    f"{other.name}: {heading}": column
                    for heading, column in other_text.columns().items()
                }
        words = (
            with_bold([word], [0] if row < len(bold) and bold[row] else [])
            for row, word in enumerate(text.words)
        )
        cells = ([_cell(value) for value in column] for column in columns.values())
        heads, rows = [name, *map(plain, columns)], zip(words, *cells, strict=True)
        tables.append(table(heads, rows, text_columns=2 if isinstance(text, MatchedText) else 1))
    sentences = [
        f"{explanation.score_breakdown()}.",
        *explanation.sentences(),
        *explanation.notes,
        explanation.method,
    ]
    if others:
        similarities = (
            f"{model.name} {model.similarity:.3f} ({model.measure})"
            for model in (explanation, *others)
        )
        sentences.append(f"Without the prior: {', '.join(similarities)}.")
    return "\n\n".join([*tables, bullets(sentences)])


def _cell(value: float | bool | str | None) -> str:
    """Formats a contribution (float), a flag (bool), a count (int), a text, or None if missing."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float):
        return f"{value:+.3f}"
    return "yes" if value is True else str(int(value) or "")


def figures(explanation: Explanation) -> dict[str, Figure]:
    """The figures by file name: word weights; for recurrent models, also gates and active cells."""
    if isinstance(explanation, MatchExplanation):
        return {"words": _match_figure(explanation)}
    return _shapley_figures(explanation)


def _match_figure(explanation: MatchExplanation) -> Figure:
    """The figure of the contributions of words and pairs, and of query words to the text cosine."""
    from dssm_tf.reports.figures import draw_word_weights

    bars = {
        text.name: (
            text.words,
            np.array([match.contribution for match in text.matches]),
            np.array([match.weight for match in text.matches]),
        )
        for text in (explanation.query, explanation.title)
    }
    if pairs := explanation.matches.displayed().pairs:
        contributions = np.array([pair.contribution for pair in pairs])
        bars["pairs"] = ([pair.pair for pair in pairs], contributions, contributions)
    if cosine_parts := explanation.matches.displayed().text_cosine:
        contributions = np.array([part.contribution for part in cosine_parts])
        no_ticks = np.full(len(cosine_parts), np.nan)  # a word of the cosine has no upper limit
        bars["text cosine"] = ([part.word for part in cosine_parts], contributions, no_ticks)
    heading = f"{explanation.name}: {explanation.similarity:.3f} without the prior"
    return draw_word_weights(bars, heading, "score", "adds at most")


def _shapley_figures(explanation: ShapleyExplanation) -> dict[str, Figure]:
    """The figure of the contributions of words; for recurrent models, also gates and cells."""
    from dssm_tf.reports.figures import draw_heat_maps, draw_word_weights

    texts = (explanation.query, explanation.title)
    weights = {text.name: (text.words, text.contributions, text.losses) for text in texts}
    heading = f"{explanation.name}: {explanation.measure} {explanation.similarity:.3f}"
    drawings = {"words": draw_word_weights(weights, heading, explanation.measure)}
    readings = [(text.name, reading) for text in texts for reading in text.readings]
    largest = max((np.abs(reading.y).max() for _, reading in readings), default=0.0)
    for side_name, reading in readings:
        name = f"{side_name}{'-backwards' if reading.backwards else ''}"
        direction = f"{side_name}, read from the {'right' if reading.backwards else 'left'}"
        # In the order of fig. 4 of Palangi et al. 2016.
        gates = {f"{gate}(t)": reading.activations[gate] for gate in "ifocy"
                 if gate in reading.activations}  # fmt: skip
        drawings[f"gates-{name}"] = draw_heat_maps(
            gates, reading.words, f"{explanation.name}: {direction}"
        )
        cells = most_active(reading.y[-1])
        active = {"y(t)": reading.activations["y"][:, cells]}
        title = f"{len(cells)} most active cells: {direction}"
        drawings[f"active-{name}"] = draw_heat_maps(
            active, reading.words, title, cells.tolist(), largest
        )
    return drawings


def write(explanation: Explanation, directory: Path) -> None:
    """Writes the report with its figures, and `explanation.json`."""
    drawings = figures(explanation)
    text = "\n\n".join(
        [
            f"# {plain(explanation.name)}: why a title matches a query",
            markdown(explanation),
            *(f"![{name.replace('-', ' ')}]({name}.svg)" for name in drawings),
        ]
    )
    report.write(directory, text, drawings)
    data = json.dumps(explanation.to_json(), indent=2, ensure_ascii=False)
    (directory / "explanation.json").write_text(data + "\n", "utf-8")
