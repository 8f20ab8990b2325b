"""Figures of means with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure


def draw_intervals(
    panels: Mapping[str, Mapping[str, Mapping[Any, tuple[float, float]]]],
    path: Path,
    x_label: str,
    y_label: str,
) -> None:
    """Draws means with their intervals, one line per system and one panel per data set.

    Args:
        panels: for each panel, line and x value: the mean, and half the width of the interval.
            Numeric x values are joined by a line. At x values that are names, the points of the
            lines are next to each other.
        path: PNG to write.
        x_label: label of the x axis.
        y_label: label of the y axis.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.4 * len(panels), 4), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    styles = {name: index for index, name in enumerate(names)}
    for axis, (panel, lines) in zip(axes[0], panels.items(), strict=True):
        ticks = list(dict.fromkeys(x for line in lines.values() for x in line))
        categorical = any(isinstance(x, str) for x in ticks)
        for line, values in lines.items():
            style = styles[line]
            shift = (style - (len(styles) - 1) / 2) * 0.8 / len(styles) if categorical else 0.0
            x_values = [ticks.index(x) + shift if categorical else x for x in values]
            means, halves = zip(*values.values(), strict=True) if values else ((), ())
            axis.errorbar(
                x_values, means, yerr=np.nan_to_num(halves, posinf=0.0), label=line,
                color=f"C{style}", marker="os^DvPX*"[style % 8], markersize=4, capsize=2,
                linestyle="none" if categorical else "-" if style < 5 else "--",
            )  # fmt: skip
        if categorical:
            axis.set_xticks(range(len(ticks)), ticks, rotation=20)
        else:
            axis.set_xticks(sorted(ticks))
        axis.set_title(panel)
        axis.set_xlabel(x_label)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel(y_label)
    handles = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=len(handles), fontsize=8
    )
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure and closes it."""
    figure.savefig(path, dpi=130)
    plt.close(figure)
