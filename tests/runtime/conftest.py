"""Compact models of small towers with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssm_tf.export.compact import export_compact
from dssm_tf.model.run_files import WEIGHTS, mark_finished
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.trained_run import TrainedRun
from dssm_tf.runtime import CompactRanker
from dssm_tf.text.rules import TextRules
from tests.clicks import Click, write_data
from tests.runs import finished_run

LOG = [
    Click("fox", "Red Fox", 5),
    Click("owl", "green owl", 2),
    Click("bear", "black bear", 1),
    Click("tiger", "tíger & \U0001f405 / 虎", 1),
]
# Texts are truncated to six words and words to nine letters; unknown trigrams share seven rows.
RULES = TextRules(False, max_words=6, max_letters=9, hash_buckets=7)
WEIGHT = 0.25
LSTM = {"name": "lstm", "cells": 4}


def assign_random_weights(run: Path, seed: int) -> None:
    """Replaces the weights of a run by random ones, biases included."""
    model = TrainedRun.read(run).model
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    model.save_weights(run / WEIGHTS)
    mark_finished(run)


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Returns a function that writes a run; like training, it leaves no weight at zero."""
    folder = tmp_path_factory.mktemp("runtime")
    data = write_data(folder / "data", LOG, validation=(), negatives=1, rules=RULES)
    runs: list[Path] = []

    def make(tower: dict[str, Any], shared: bool = False, weight: float = WEIGHT) -> Path:
        run = folder / f"run{len(runs)}"
        runs.append(finished_run(run, data, {"tower": tower, "shared_towers": shared}, weight))
        assign_random_weights(run, len(runs))
        return run

    return make


@pytest.fixture(scope="session")
def lstm_run(make_run) -> Path:
    return make_run(LSTM)


@pytest.fixture(scope="session")
def directory(lstm_run, tmp_path_factory) -> Path:
    """A compact model. Tests must not change it."""
    return export_compact(lstm_run, tmp_path_factory.mktemp("compact"))


@pytest.fixture(scope="session")
def trained(lstm_run) -> SemanticRanker:
    return SemanticRanker.load(lstm_run)


@pytest.fixture
def ranker(directory) -> CompactRanker:
    return CompactRanker.load(directory)
