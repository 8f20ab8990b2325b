"""Directories of runs whose models a test replaces, for `dssm evaluate`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.data.format import KINDS, Spec
from dssm_tf.text.rules import FOLDED


def replace_load_run(monkeypatch: pytest.MonkeyPatch, load_run: Callable[[Path], object]) -> None:
    """Makes `dssm_tf.model.load_run.load_run` another function, without importing TensorFlow."""
    module = types.ModuleType("dssm_tf.model.load_run")
    module.load_run = load_run
    monkeypatch.setitem(sys.modules, "dssm_tf.model.load_run", module)


def write_run(path: Path, queries: Sequence[str]) -> None:
    """Writes the files of a run that `dssm evaluate` reads beside the model.

    Args:
        path: the directory of the run.
        queries: the queries that the run has learned.
    """
    path.mkdir(parents=True)
    (path / "config.yaml").touch()
    np.save(path / "query_ids.npy", np.array([FOLDED.id(query) for query in queries], np.int64))
    Spec(
        rules=FOLDED,
        title_fields=("title",),
        ngrams=6,
        fingerprint="",
        negatives=0,
        negative_alpha=1.0,
        clicks=0,
        rows=dict.fromkeys(KINDS, ()),
        files={},
    ).save(path)
