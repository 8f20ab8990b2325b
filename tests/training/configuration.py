"""A small configuration to train, and the weights of runs compared."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np

EPOCHS, BATCH = 2, 8
CONFIG = {
    "tower": {"name": "dssm", "widths": [8, 6], "dropout": 0.2},
    "optimizer": {"learning_rate": 0.02},
    "training": {
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "xla": False,
        "monitor": "loss",
        "refit": False,
        "title_queries": 0,
    },
}
# Rivals that do not depend on how a step is cut into parts.
RECORDED = {"recorded": 2, "in_batch": False}


def config(**changes):
    """The configuration with `section__key=value` changes."""
    raw = json.loads(json.dumps(CONFIG))
    for name, value in changes.items():
        *parents, last = name.split("__")
        section = raw
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return raw


def weights(run: Path) -> dict[str, np.ndarray]:
    found = {}
    with h5py.File(run / "model.weights.h5") as file:
        file.visititems(
            lambda name, one: (
                found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None
            )
        )
    return found


def equal(a: Path, b: Path) -> bool:
    """Whether two runs have the same weights, to the bit."""
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)
