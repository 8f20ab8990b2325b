"""Compact models of small towers, every weight of which is drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssm_tf.export.compact import export_compact
from dssm_tf.model.run_files import WEIGHTS, mark_finished
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime import Ranker
from dssm_tf.text.rules import Rules
from tests.clicks import Click, write_data
from tests.runs import finished_run

LOG = [
    Click("fox", "Red Fox", 5),
    Click("owl", "green owl", 2),
    Click("bear", "black bear", 1),
    Click("tiger", "tíger & \U0001f405 / 虎", 1),
]
# A text is cut at six words and a word at nine letters; unseen trigrams share seven rows.
RULES = Rules(False, max_words=6, max_letters=9, hash_buckets=7)
WEIGHT = 0.25
LSTM = {"name": "lstm", "cells": 4}


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Writes a run of a tower; training would leave no weight at zero, and so does this."""
    folder = tmp_path_factory.mktemp("runtime")
    data = write_data(folder / "data", LOG, validation=(), negatives=1, rules=RULES)
    made: list[Path] = []

    def make(tower: dict[str, Any], shared: bool = False, weight: float = WEIGHT) -> Path:
        run = folder / f"run{len(made)}"
        made.append(finished_run(run, data, {"tower": tower, "shared_towers": shared}, weight))
        model = SemanticRanker.load(run).model
        rng = np.random.default_rng(len(made))
        for variable in model.weights:
            variable.assign(rng.normal(0, 0.5, variable.shape))
        model.save_weights(run / WEIGHTS)
        mark_finished(run)
        return run

    return make


@pytest.fixture(scope="session")
def lstm_run(make_run) -> Path:
    return make_run(LSTM)


@pytest.fixture(scope="session")
def directory(lstm_run, tmp_path_factory) -> Path:
    """A compact model; not to be changed."""
    return export_compact(lstm_run, tmp_path_factory.mktemp("compact"))


@pytest.fixture(scope="session")
def trained(lstm_run) -> SemanticRanker:
    return SemanticRanker.load(lstm_run)


@pytest.fixture
def ranker(directory) -> Ranker:
    return Ranker.load(directory)
