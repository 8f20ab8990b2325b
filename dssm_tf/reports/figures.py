"""Draws all figures of the package; the only module that imports matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

_DPI = 130
# Blue and orange can be told apart by color-blind readers, and in grayscale.
_POSITIVE, _NEGATIVE = "#1f5fa8", "#e08214"


def draw_curves(
    title: str,
    curves: Mapping[str, Sequence[float]],
    x_label: str,
    x: Sequence[str] = (),
    *,
    log: bool = False,
) -> Figure:
    """Draws curves.

    Args:
        title: title of the figure.
        curves: the values of each curve, by its name.
        x_label: label of the x axis.
        x: labels of the points on the x axis; 1, 2, ... if empty.
        log: whether the y axis is logarithmic; ignored if a value is not above 0.
    """
    figure = Figure(figsize=(4.6, 3), layout="constrained")
    axis = figure.subplots()
    for number, (name, values) in enumerate(curves.items()):
        # Dashes distinguish the curves without color.
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


def draw_word_weights(
    bars: Mapping[str, tuple[Sequence[str], NDArray[Any], NDArray[Any]]],
    title: str,
    measure: str = "cosine",
    tick_label: str = "lost without the word",
) -> Figure:
    """Draws the contributions of the words of a query and of a title to a score.

    Bars are contributions; ticks are another value per word.

    Args:
        bars: words, contributions and values of the ticks, each `(words,)`, by the name of a
            panel: `query`, `title`, and possibly `pairs` and `text cosine`. A value NaN has no
            tick.
        title: title of the figure.
        measure: the score that the words contribute to.
        tick_label: the meaning of the ticks, such as the loss when the word is removed.

    Returns:
        The figure, for `save`.
    """
    longest = max(len(words) for words, _, _ in bars.values())
    figure = Figure(figsize=(8.8, 1.6 + 0.32 * longest), layout="constrained")
    axes = figure.subplots(1, len(bars), sharex=True, squeeze=False)
    for axis, (name, (words, contributions, ticks)) in zip(axes[0], bars.items(), strict=True):
        rows = np.arange(len(words))
        colors = np.where(np.asarray(contributions) >= 0, _POSITIVE, _NEGATIVE)
        axis.barh(rows, contributions, color=colors, label=f"adds to the {measure}")
        axis.plot(ticks, rows, "k|", markersize=12, label=tick_label)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(rows, words)
        axis.invert_yaxis()
        axis.set(title=name, xlabel=measure)
        axis.grid(alpha=0.3, axis="x")
    handles, labels = axes[0, 0].get_legend_handles_labels()  # the same for each panel
    figure.legend(handles, labels, loc="outside lower center", ncols=2, framealpha=0)
    figure.suptitle(title)
    return figure


def draw_heat_maps(
    panels: Mapping[str, NDArray[Any]],
    words: Sequence[str],
    title: str,
    cells: Sequence[int] | None = None,
    limit: float = 1.0,
) -> Figure:
    """Draws the values of cells at each word of a text. All panels share one color scale.

    Args:
        panels: values by the name of the panel, each `(words, cells)`.
        words: the words of the text, in order.
        title: title of the figure.
        cells: the numbers of the cells; 0, 1, ... if None.
        limit: the color scale extends from `-limit` to `limit`.

    Returns:
        The figure, for `save`.

    Reference: Palangi et al. 2016, fig. 4-6 and 8-12.
    """
    figure = Figure(
        figsize=(1.4 + len(panels) * max(1.7, 0.42 * len(words)), 4.6), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    colors = ScalarMappable(Normalize(-limit, limit), "PuOr_r")
    for axis, (name, values) in zip(axes[0], panels.items(), strict=True):
        axis.imshow(
            values.T, cmap=colors.cmap, norm=colors.norm, aspect="auto", interpolation="nearest"
        )
        axis.set_title(name)
        axis.set_xticks(range(len(words)), words, rotation=60, ha="right", rotation_mode="anchor")
        if cells is not None:
            axis.set_yticks(range(len(cells)), cells)
    axes[0][0].set_ylabel("cell")
    figure.colorbar(colors, ax=list(axes[0]), label="activation", extend="both")
    figure.suptitle(title, wrap=True)
    return figure


class NotebookFigure(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        self.savefig(content, format="png", dpi=_DPI)
        return content.getvalue()


def draw_mean_intervals(
    systems: Sequence[str], panels: Mapping[str, NDArray[Any]]
) -> NotebookFigure:
    """Draws means with intervals, one row per system and one panel per metric.

    Args:
        systems: the names of the systems, the first one at the top.
        panels: mean, low and high of each system, `(3, systems)`, by metric.
    """
    figure = NotebookFigure(
        figsize=(1.4 + 2.2 * len(panels), 1 + 0.4 * len(systems)), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    rows = np.arange(len(systems))
    for axis, (metric, (mean, low, high)) in zip(axes[0], panels.items(), strict=True):
        errors = np.clip([mean - low, high - mean], 0, None)
        axis.errorbar(mean, rows, xerr=errors, fmt="o", color=_POSITIVE, capsize=3)
        axis.set_yticks(rows, systems)
        axis.set_ylim(len(systems) - 0.5, -0.5)
        axis.set(xlabel=metric)
        axis.grid(alpha=0.3, axis="x")
    figure.suptitle("mean and 95 % interval over queries", fontsize="medium")
    return figure


def save(figure: Figure, path: Path) -> str:
    """Writes a figure as `path.png` and `path.svg`.

    Returns:
        The SVG element. Black parts have the text color of the page around it.
    """
    figure.savefig(f"{path}.png", dpi=_DPI)
    # Text is not drawn as paths, and equal figures have equal bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dssm-tf"}):
        figure.savefig(f"{path}.svg", transparent=True, metadata={"Date": None})
    text = Path(f"{path}.svg").read_text("utf-8")
    return text[text.index("<svg") :].replace("#000000", "currentColor")
