"""The curves of trained runs: loss, or another metric, epoch by epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.model.run_files import HISTORY

# What falls towards zero is read off a logarithmic axis, as in P16 fig. 7.
_LOGARITHMIC = ("loss", "val_loss")


def curves(runs: Mapping[str, Path], metric: str, out: Path) -> None:
    """Draws the metric of each run by epoch.

    Args:
        runs: directories that `dssm train` wrote, by the name to show.
        metric: a key of the runs' history.
        out: PNG to write.

    Raises:
        UserError: a run has no history, or not of that metric.
    """
    values = {
        name: [_value(epoch, metric, run) for epoch in read_history(run)]
        for name, run in runs.items()
    }

    from rich.console import Console

    from dssm_tf.common import figures
    from dssm_tf.common.files import atomic_write

    with atomic_write(out, "wb") as file:
        figures.cost_curves(values, file, metric, logarithmic=metric in _LOGARITHMIC)
    Console().print(f"Written: {out}", highlight=False, markup=False, soft_wrap=True)


def read_history(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run's first training, one dict an epoch.

    Raises:
        UserError: the run has no history, or a damaged one.
    """
    try:
        history: list[dict[str, Any]] = json.loads((run / HISTORY).read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"{run / HISTORY} cannot be read ({error.strerror}); give a directory that "
            "`dssm train` finished."
        ) from None
    except ValueError as error:
        raise UserError(f"{run / HISTORY} is damaged: {error}.") from None
    return history


def _value(epoch: dict[str, Any], metric: str, run: Path) -> float:
    if metric not in epoch:
        raise UserError(f"{run} has no metric {metric!r}; it has {', '.join(sorted(epoch))}.")
    return float(epoch[metric])
