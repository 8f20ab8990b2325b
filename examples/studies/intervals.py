"""A figure of means with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure


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
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure, and closes it."""
    figure.savefig(path, dpi=130)
    plt.close(figure)
