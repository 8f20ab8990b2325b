"""A small configuration to train by, and the weights of runs compared."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from pytest import approx

from dssm_tf.config import Config, parse_config
from dssm_tf.data.batches import Batches
from dssm_tf.data.graded_sources import read_sources
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.batches import training_batches
from dssm_tf.training.run_directory import Result
from dssm_tf.training.train import train
from tests.clicks import Data

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


def trained(data: Data, out: Path, *, start=None, callbacks=(), **changes) -> Result:
    """Trains by the configuration with these changes, without a word."""
    settings = parse_config(config(**changes))
    return train(settings, data.path, out, start=start, callbacks=callbacks, quiet=True)


def batches_of(config: Config, data: Preprocessed, fixed_shapes: bool = False) -> Batches:
    """The batches of a configuration on one device, graded lists included."""
    return training_batches(
        config.training,
        config.negatives,
        data,
        shared_towers=config.shared_towers,
        replicas=1,
        fixed_shapes=fixed_shapes,
        sources=read_sources(config.lists, data),
    )


def weights(run: Path) -> dict[str, np.ndarray]:
    found: dict[str, h5py.Dataset | h5py.Group] = {}
    with h5py.File(run / "model.weights.h5") as file:
        file.visititems(found.__setitem__)
        return {name: one[()] for name, one in found.items() if isinstance(one, h5py.Dataset)}


def equal(a: Path, b: Path) -> bool:
    """Whether two runs have the same weights, to the bit."""
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def assert_near(a: Path, b: Path, one_history, other_history, tolerance: float) -> None:
    """That two runs have the same losses and weights, up to a rounding of the weights."""
    for one, other in zip(one_history, other_history, strict=True):
        assert other == approx(one, abs=10 * tolerance)  # gamma is 10
    expected, found = weights(a), weights(b)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == approx(value, abs=tolerance), name
