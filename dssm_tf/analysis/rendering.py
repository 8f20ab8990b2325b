"""An explanation as Markdown, as JSON and as figures; all show the same words and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dssm_tf.analysis.cells import most_active
from dssm_tf.analysis.explanation import Explanation, Side
from dssm_tf.common import markdown as report
from dssm_tf.common.markdown import marked, plain, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def markdown(explanation: Explanation, beside: Sequence[Explanation] = ()) -> str:
    """Both texts, word by word, and what matches in sentences.

    Args:
        explanation: of a pair.
        beside: of the same pair by other models, whose numbers stand beside.
    """
    parts = []
    for name in ("query", "title"):
        side: Side = getattr(explanation, name)
        numbers = side.columns()
        # Keywords of a recurrent model and winners of a CLSM's neurons are bold.
        bold = numbers.get("keyword", numbers.get("top neurons won", ()))
        for other in beside:
            theirs: Side = getattr(other, name)
            if theirs.words == side.words:
                numbers |= {f"{other.model}: {h}": cells for h, cells in theirs.columns().items()}
        words = (
            marked([word], [0] if place < len(bold) and bold[place] else [])
            for place, word in enumerate(side.words)
        )
        cells = ([_cell(value) for value in column] for column in numbers.values())
        parts.append(table([name, *map(plain, numbers)], zip(words, *cells, strict=True)))
    said = [plain(sentence) for sentence in paragraphs(explanation)]
    if beside:
        scores = (f"{plain(one.model)} {one.cosine:.3f}" for one in (explanation, *beside))
        said.append(f"{explanation.measure.capitalize()}: {', '.join(scores)}.")
    return "\n\n".join([*parts, "\n".join(f"- {sentence}" for sentence in said)])


def _cell(value: float | bool | None) -> str:
    """A number of a word: a share, a count, or whether."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:+.3f}"
    return "yes" if value is True else str(int(value) or "")


def paragraphs(explanation: Explanation) -> list[str]:
    """What there is to say besides the numbers of the words."""
    said = [f"{explanation.parts()}.", *explanation.sentences()]
    if links := explanation.links():
        query, title = explanation.query.words, explanation.title.words
        named = (f"{one.neuron} ({query[one.query]}, {title[one.title]})" for one in links)
        said.append(f"Neurons that are high for both: {'; '.join(named)}.")
    method = "What words add: Shapley values, with standard errors if a long text was sampled."
    return [*said, *explanation.notes, method]


def figures(explanation: Explanation) -> dict[str, Figure]:
    """The figures that a model has of a pair, by the names of their files."""
    from dssm_tf.common.figures import heat_maps, word_weights

    sides = (explanation.query, explanation.title)
    weights = {side.name: (side.words, side.contributions, side.lost) for side in sides}
    about = f"{explanation.model}: {explanation.measure} {explanation.cosine:.3f}"
    found = {"words": word_weights(weights, about, explanation.measure)}
    readings = [(side.name, one) for side in sides for one in side.readings]
    largest = max((np.abs(reading.y).max() for _, reading in readings), default=0.0)
    for side, reading in readings:
        name = f"{side}{'-backwards' if reading.backwards else ''}"
        read = f"{side}, read from the {'right' if reading.backwards else 'left'}"
        # In the order of P16 fig. 4.
        gates = {f"{gate}(t)": reading.activations[gate] for gate in "ifocy"
                 if gate in reading.activations}  # fmt: skip
        found[f"gates-{name}"] = heat_maps(gates, reading.words, f"{explanation.model}: {read}")
        cells = most_active(reading.y[-1])
        active = {"y(t)": reading.activations["y"][:, cells]}
        title = f"{len(cells)} most active cells: {read}"
        found[f"active-{name}"] = heat_maps(active, reading.words, title, cells.tolist(), largest)
    return found


def write(explanation: Explanation, directory: Path) -> None:
    """Writes a report with the figures that the model has, and `explanation.json`."""
    drawn = figures(explanation)
    text = "\n\n".join(
        [
            f"# {plain(explanation.model)}: why a title matches a query",
            markdown(explanation),
            *(f"![{name.replace('-', ' ')}]({name}.svg)" for name in drawn),
        ]
    )
    report.write(directory, text, drawn)
    plainly = json.dumps(explanation.to_json(), indent=2, ensure_ascii=False)
    (directory / "explanation.json").write_text(plainly + "\n", "utf-8")
