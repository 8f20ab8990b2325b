"""Trainings whose vectors may be cut: what they measure, write and export."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from dssm_tf.config import parse_config
from dssm_tf.export.compact import export_compact
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime.ranker import Ranker
from dssm_tf.training.train import train
from tests.rounding import rounding
from tests.training.configuration import config


@pytest.mark.numeric
def test_a_compact_export_of_fewer_numbers_has_the_first_ones(data, tmp_path):
    run, raw = tmp_path / "run", config(training__nested_lengths=[2, 4], training__epochs=1)
    train(parse_config(raw), data.path, run, quiet=True)
    target, _ = export_compact(run, tmp_path / "compact", dimension=2)
    texts = ["red fox", "white whale", "owl"]
    whole = SemanticRanker.load(run).encode_titles(texts)[:, :2]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    # Cut vectors are brought to length one: what was rounding of the whole grows with it.
    grown = 1 / float(np.linalg.norm(whole, axis=1).min())
    assert Ranker.load(target).encode_titles(texts) == approx(expected, abs=grown * rounding(40, 2))
    assert "vectors of 2 numbers,\n6 in training" in (target / "MODEL_CARD.md").read_text("utf-8")
