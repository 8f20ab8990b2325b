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
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise UserError(
        f"figures need matplotlib, which cannot be imported ({error}): {install('figures')}"
    ) from error

_DPI = 130


def embeddings(
    systems: Mapping[str, NDArray[np.floating[Any]]],
    labels: Sequence[str],
    path: Path,
    legend: str = "class",
) -> None:
    """Two-dimensional embeddings side by side, coloured by class.

    Args:
        systems: `(points, 2)` each, by name.
        labels: class of each point.
        path: PNG to write.
        legend: what the colours are.

    Reference: Wu et al. 2014, fig. 1.
    """
    figure, axes = plt.subplots(
        1, len(systems), figsize=(5 * len(systems), 4.6), layout="constrained", squeeze=False
    )
    names = np.array(labels)
    for axis, (name, points) in zip(axes[0], systems.items(), strict=True):
        for place, label in enumerate(sorted(set(labels))):
            chosen = names == label
            axis.scatter(*points[chosen].T, s=9, alpha=0.6, color=f"C{place}", label=label)
            axis.annotate(
                label, np.median(points[chosen], axis=0), ha="center", va="center", weight="bold",
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": f"C{place}", "alpha": 0.8},
            )  # fmt: skip
        axis.set_title(name)
        axis.set_xlabel("dimension 1")
        axis.set_ylabel("dimension 2")
    axes[0][-1].legend(title=legend, fontsize=8, markerscale=1.5)
    _write(figure, path)


def rank_loss_by_share(losses: Mapping[str, Mapping[str, Mapping[str, float]]], path: Path) -> None:
    """Rank loss against the share of training links, one line a dimension, one panel a system.

    Args:
        losses: `losses[system][share][dimension]` in per cent.
        path: PNG to write.

    Reference: Wu et al. 2014, table 1.
    """
    figure, axes = plt.subplots(
        1, len(losses), figsize=(4.6 * len(losses), 4), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    for axis, (system, shares) in zip(axes[0], losses.items(), strict=True):
        places = [100 * float(share) for share in shares]
        for dimension in next(iter(shares.values())):
            values = [row[dimension] for row in shares.values()]
            axis.plot(places, values, marker="o", label=f"C = {dimension}")
        axis.set_xscale("log")
        axis.set_xticks(places, [f"{place:g}" for place in places])
        axis.minorticks_off()
        axis.set_title(system.upper())
        axis.set_xlabel("training links (%)")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("rank loss (%)")
    axes[0][0].set_ylim(bottom=0)
    axes[0][-1].legend(fontsize=8)
    _write(figure, path)


def rank_loss_by_number(
    losses: Mapping[str, Mapping[str, float]], path: Path, label: str, *, logarithmic: bool = False
) -> None:
    """Rank loss against a number, one line a system.

    Args:
        losses: `losses[system][number]` in per cent.
        path: PNG to write.
        label: what the number is.
        logarithmic: whether its axis is; else the numbers stand at equal distances.

    Reference: Wu et al. 2014, fig. 2 and table 3.
    """
    figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
    numbers = sorted({int(number) for row in losses.values() for number in row})
    places = numbers if logarithmic else list(range(len(numbers)))
    for place, (system, row) in enumerate(losses.items()):
        known = [(x, row[str(number)]) for x, number in zip(places, numbers, strict=True)
                 if str(number) in row]  # fmt: skip
        axis.plot(*zip(*known, strict=True), marker="os^Dv"[place % 5], label=system)
    if logarithmic:
        axis.set_xscale("log")
    axis.set_xticks(places, [f"{number:,}" for number in numbers], rotation=20)
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.set_ylabel("rank loss (%)")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend()
    _write(figure, path)


def cost_curves(
    runs: Mapping[str, Sequence[float]],
    path: Path | IO[bytes],
    label: str,
    *,
    logarithmic: bool = True,
) -> None:
    """A metric by epoch, one line a run.

    Args:
        runs: values epoch by epoch, by name.
        path: PNG to write, or a file opened for it.
        label: what the values are.
        logarithmic: whether their axis is.

    Reference: Palangi et al. 2016, fig. 7.
    """
    figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
    for place, (name, values) in enumerate(runs.items()):
        epochs = range(1, len(values) + 1)
        axis.plot(epochs, values, marker="os^Dv"[place % 5], markersize=3, label=name)
    if logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("epoch")
    axis.set_ylabel(label)
    axis.grid(alpha=0.3)
    axis.legend()
    _write(figure, path)


def _write(figure: Any, path: Path | IO[bytes]) -> None:
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
