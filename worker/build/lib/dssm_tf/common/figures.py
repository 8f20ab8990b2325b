"""Every figure is drawn here: the only module that knows matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install

try:
    import matplotlib as mpl

    mpl.use("Agg")  # files only: there may be no screen
    from matplotlib import pyplot as plt
except ImportError as error:
    raise UserError(
        f"figures need matplotlib, which cannot be imported ({error}): {install('figures')}"
    ) from error

_DPI = 130
# Blue and orange differ for every kind of sight, and in grey.
_FOR, _AGAINST = "#1f5fa8", "#e08214"
# Okabe and Ito 2008: eight that differ for every kind of sight.
_OKABE_ITO = (
    "#000000", "#f0e442", "#e69f00", "#d55e00", "#56b4e9", "#0072b2", "#009e73", "#cc79a7",
)  # fmt: skip


def with_intervals(
    panels: Mapping[str, Mapping[str, Mapping[Any, tuple[float, float]]]],
    path: Path,
    x_label: str,
    y_label: str,
) -> None:
    """Means with their intervals, one line a system, one panel a set.

    Args:
        panels: of each panel and line by place: the mean, and half the interval's width. Places
            are numbers, which a line joins, or names, at which points stand beside each other.
        path: PNG to write.
        x_label: what the places are.
        y_label: what the values are.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.4 * len(panels), 4), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    styles = {
        name: at for at, name in enumerate(dict.fromkeys(n for p in panels.values() for n in p))
    }
    for axis, (panel, lines) in zip(axes[0], panels.items(), strict=True):
        places = list(dict.fromkeys(place for line in lines.values() for place in line))
        names = any(isinstance(place, str) for place in places)
        for line, values in lines.items():
            at = styles[line]
            aside = (at - (len(styles) - 1) / 2) * 0.8 / len(styles) if names else 0.0
            x = [places.index(place) + aside if names else place for place in values]
            means, halves = zip(*values.values(), strict=True) if values else ((), ())
            axis.errorbar(
                x, means, yerr=np.nan_to_num(halves, posinf=0.0), label=line, color=f"C{at}",
                marker="os^DvPX*"[at % 8], markersize=4, capsize=2,
                linestyle="none" if names else "-" if at < 5 else "--",
            )  # fmt: skip
        if names:
            axis.set_xticks(range(len(places)), places, rotation=20)
        else:
            axis.set_xticks(sorted(places))
        axis.set_title(panel)
        axis.set_xlabel(x_label)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel(y_label)
    drawn = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=len(drawn), fontsize=8)
    _write(figure, path)


def word_weights(
    sides: Mapping[str, tuple[Sequence[str], NDArray[Any], NDArray[Any]]],
    title: str,
    measure: str = "cosine",
) -> Any:
    """What each word of a query and of a title adds, as bars; what is lost without it, as points.

    Args:
        sides: words, what they add and what is lost without them, each `(words,)`, by side.
        title: above it all.
        measure: what they add to.

    Returns:
        The figure, for `save`.
    """
    longest = max(len(words) for words, _, _ in sides.values())
    figure, axes = plt.subplots(
        1, len(sides), figsize=(4.4 * len(sides), 1.6 + 0.32 * longest), layout="constrained",
        squeeze=False, sharex=True,
    )  # fmt: skip
    for axis, (side, (words, adds, lost)) in zip(axes[0], sides.items(), strict=True):
        places = np.arange(len(words))
        colours = [_FOR if value >= 0 else _AGAINST for value in adds]
        axis.barh(places, adds, color=colours, label=f"adds to the {measure}")
        axis.plot(lost, places, "k|", markersize=12, label="lost without the word")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(places, words)
        axis.invert_yaxis()
        axis.set_title(side)
        axis.set_xlabel(measure)
        axis.grid(alpha=0.3, axis="x")
    figure.legend(*axes[0][-1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(title)
    return figure


def heat_maps(
    panels: Mapping[str, NDArray[Any]],
    words: Sequence[str],
    title: str,
    cells: Sequence[int] | None = None,
    most: float = 1.0,
) -> Any:
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
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1.4 + len(panels) * max(1.7, 0.42 * len(words)), 4.6),
        layout="constrained", sharey=True, squeeze=False,
    )  # fmt: skip
    for axis, (name, values) in zip(axes[0], panels.items(), strict=True):
        image = axis.imshow(
            values.T, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest"
        )
        axis.set_title(name)
        axis.set_xticks(range(len(words)), words, rotation=60, ha="right", rotation_mode="anchor")
        if cells is not None:
            axis.set_yticks(range(len(cells)), [str(cell) for cell in cells])
    axes[0][0].set_ylabel("cell")
    figure.colorbar(image, ax=list(axes[0]), label="activation", extend="both")
    figure.suptitle(title)
    return figure


def matched_words(
    sides: tuple[Sequence[str], Sequence[str]],
    links: Sequence[tuple[int, int, int, float]],
    title: str,
) -> Any:
    """The words of two texts, joined by the neurons that they win on both sides.

    Args:
        sides: words of the query and of the title.
        links: of each neuron its number, the place of its word in either text, and its strength.
        title: above it all.

    Returns:
        The figure, for `save`.

    Reference: Shen et al. 2014, fig. 4.
    """
    rows = max(*map(len, sides), len(links), 1)
    figure, axis = plt.subplots(figsize=(7, 1.2 + 0.36 * rows), layout="constrained")

    def heights(number: int) -> NDArray[Any]:
        return (np.arange(number) + 0.5) * rows / max(number, 1)

    left, right, middle = heights(len(sides[0])), heights(len(sides[1])), heights(len(links))
    strongest = max((strength for *_, strength in links), default=1.0)
    for height, (neuron, query, other, strength) in zip(middle, links, strict=True):
        width = 0.5 + 3 * strength / strongest
        axis.plot([0, 0.5, 1], [left[query], height, right[other]], color=_FOR, lw=width, alpha=0.6)
        axis.annotate(str(neuron), (0.5, height), ha="center", va="center", fontsize=8,
                      bbox={"boxstyle": "circle,pad=0.2", "fc": "white", "ec": _FOR})  # fmt: skip
    for x, words, places, align in ((0, sides[0], left, "right"), (1, sides[1], right, "left")):
        for word, height in zip(words, places, strict=True):
            axis.annotate(word, (x, height), xytext=(-6 if x == 0 else 6, 0),
                          textcoords="offset points", ha=align, va="center")  # fmt: skip
    axis.set_xlim(-0.35, 1.35)
    axis.set_ylim(rows, 0)
    axis.set_axis_off()
    axis.set_title(title)
    return figure


def save(figure: Any, directory: Path, name: str) -> list[Path]:
    """Writes `name.png` and `name.svg` into a directory, and closes the figure."""
    paths = [directory / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=_DPI)
    plt.close(figure)
    return paths


def _write(figure: Any, path: Path | IO[bytes]) -> None:
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
