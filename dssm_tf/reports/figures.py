"""Every figure is drawn here: the only module that knows matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

_DPI = 130
# Blue and orange differ for every kind of sight, and in grey.
_FOR, _AGAINST = "#1f5fa8", "#e08214"


def lines(
    title: str,
    curves: Mapping[str, Sequence[float]],
    x_label: str,
    x: Sequence[str] = (),
    *,
    log: bool = False,
) -> Figure:
    """Curves over places 1, 2, and so on, or over labels.

    Args:
        title: what is drawn.
        curves: values, a curve a name.
        x_label: what the places are.
        x: labels of the places; numbers from 1 if empty.
        log: whether the values' axis is logarithmic, where all are above 0.
    """
    figure = Figure(figsize=(4.6, 3), layout="constrained")
    axis = figure.subplots()
    for number, (name, values) in enumerate(curves.items()):
        # Dashes, so that curves differ without their colours, too.
        axis.plot(
            x or range(1, len(values) + 1),
            values,
            ("-", "--", ":", "-.")[number % 4],
            label=name,
            marker=".",
        )
    if log and min(map(min, curves.values())) > 0:
        axis.set_yscale("log")
    axis.set(title=title, xlabel=x_label)
    axis.grid(alpha=0.3)
    axis.legend(framealpha=0)
    return figure


def word_weights(
    sides: Mapping[str, tuple[Sequence[str], NDArray[Any], NDArray[Any]]],
    title: str,
    measure: str = "cosine",
) -> Figure:
    """What each word of a query and of a title adds, as bars; what is lost without it, as strokes.

    Args:
        sides: of both, words, what they add and what is lost without them, each `(words,)`.
        title: above it all.
        measure: what they add to.

    Returns:
        The figure, for `save`.
    """
    longest = max(len(words) for words, _, _ in sides.values())
    figure = Figure(figsize=(8.8, 1.6 + 0.32 * longest), layout="constrained")
    axes = figure.subplots(1, len(sides), sharex=True, squeeze=False)
    for axis, (side, (words, adds, lost)) in zip(axes[0], sides.items(), strict=True):
        places = np.arange(len(words))
        colours = np.where(np.asarray(adds) >= 0, _FOR, _AGAINST)
        axis.barh(places, adds, color=colours, label=f"adds to the {measure}")
        axis.plot(lost, places, "k|", markersize=12, label="lost without the word")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(places, words)
        axis.invert_yaxis()
        axis.set(title=side, xlabel=measure)
        axis.grid(alpha=0.3, axis="x")
    handles, labels = axes[0, 0].get_legend_handles_labels()  # every side has the same
    figure.legend(handles, labels, loc="outside lower center", ncols=2, framealpha=0)
    figure.suptitle(title)
    return figure


def heat_maps(
    panels: Mapping[str, NDArray[Any]],
    words: Sequence[str],
    title: str,
    cells: Sequence[int] | None = None,
    most: float = 1.0,
) -> Figure:
    """Values of cells at the words of a text, all in one range of colours.

    Args:
        panels: `(words, cells)` each, by name.
        words: of the text, in its order.
        title: above it all.
        cells: their numbers; 0 and up if not given.
        most: the range is from minus this to this.

    Returns:
        The figure, for `save`.

    Reference: Palangi et al. 2016, fig. 4-6 and 8-12.
    """
    figure = Figure(
        figsize=(1.4 + len(panels) * max(1.7, 0.42 * len(words)), 4.6), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    colours = ScalarMappable(Normalize(-most, most), "PuOr_r")
    for axis, (name, values) in zip(axes[0], panels.items(), strict=True):
        axis.imshow(
            values.T, cmap=colours.cmap, norm=colours.norm, aspect="auto", interpolation="nearest"
        )
        axis.set_title(name)
        axis.set_xticks(range(len(words)), words, rotation=60, ha="right", rotation_mode="anchor")
        if cells is not None:
            axis.set_yticks(range(len(cells)), cells)
    axes[0][0].set_ylabel("cell")
    figure.colorbar(colours, ax=list(axes[0]), label="activation", extend="both")
    figure.suptitle(title, wrap=True)
    return figure


def save(figure: Figure, path: Path) -> str:
    """Writes a figure as `path.png` and `path.svg`, and closes it.

    Returns:
        The SVG element, in the colour of the text around it.
    """
    figure.savefig(f"{path}.png", dpi=_DPI)
    # Text stays text, in the page's colour; and the same figure has the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dssm-tf"}):
        figure.savefig(f"{path}.svg", transparent=True, metadata={"Date": None})
    text = Path(f"{path}.svg").read_text("utf-8")
    return text[text.index("<svg") :].replace("#000000", "currentColor")
