"""A small configuration for test trainings, and comparisons of the weights of runs."""

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
        "monitor": "val_loss",
        "refit": False,
        "title_queries": 0,
    },
}
# Negatives that do not depend on how a step is divided among replicas.
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
    """Trains with the changed configuration, without output."""
    settings = parse_config(config(**changes))
    return train(settings, data.path, out, start=start, callbacks=callbacks, quiet=True)


def batches_of(config: Config, data: Preprocessed, fixed_shapes: bool = False) -> Batches:
    """The batches of a configuration on one device, graded lists included."""
    return training_batches(
        config,
        data,
        frequencies=data.document_frequencies if config.score.reads_words else None,
        replicas=1,
        fixed_shapes=fixed_shapes,
        sources=read_sources(config.lists, data),
    )


def weights(run: Path) -> dict[str, np.ndarray]:
    """The weights of a run by their path in its file."""
    items: dict[str, h5py.Dataset | h5py.Group] = {}
    with h5py.File(run / "model.weights.h5") as file:
        file.visititems(items.__setitem__)
        return {path: item[()] for path, item in items.items() if isinstance(item, h5py.Dataset)}


def equal(a: Path, b: Path) -> bool:
    """Whether two runs have the same weights, to the bit."""
    weights_a, weights_b = weights(a), weights(b)
    return weights_a.keys() == weights_b.keys() and all(
        np.array_equal(weights_a[path], weights_b[path]) for path in weights_a
    )


def assert_near(a: Path, b: Path, history_a, history_b, tolerance: float) -> None:
    """Asserts that two runs have the same losses and weights, up to rounding of the weights."""
    for epoch_a, epoch_b in zip(history_a, history_b, strict=True):
        assert epoch_b == approx(epoch_a, abs=10 * tolerance)  # gamma is 10
    weights_a, weights_b = weights(a), weights(b)
    assert weights_b.keys() == weights_a.keys()
    for path, value in weights_a.items():
        assert weights_b[path] == approx(value, abs=tolerance), path
