"""Trainings whose vectors may be cut: what they measure, write and export."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.export.compact import export_compact
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime.ranker import Ranker
from dssm_tf.training.train import train
from dssm_tf.training.validation import ValidationTask, Vectors, ndcg_by_length
from tests.rounding import rounding
from tests.training.configuration import config

RAW = config(training__nested_lengths=[2, 4], training__monitor="ndcg@10")


@pytest.fixture(scope="module")
def nested(data, folder):
    return folder / "nested", train(parse_config(RAW), data.path, folder / "nested", quiet=True)


def test_ndcg_by_length_is_that_of_vectors_cut_and_brought_to_length_one():
    task = ValidationTask(("q",), ("a", "b"), sparse.csr_array([[3.0, 0.0]]))
    vectors = {"query": [[0.6, 0.8]], "title": [[0.6, 0.8], [0.8, 0.6]]}
    found = ndcg_by_length(lambda side, _: np.array(vectors[side], np.float32), task, [1])
    # By both numbers the clicked title is first; by the first alone all cosines are 1, a tie.
    assert found["2"]["ndcg@1"] == 1
    assert found["1"] == found["2"]
    backwards = {"query": [[0.6, 0.8]], "title": [[-0.6, 0.8], [0.8, 0.6]]}
    found = ndcg_by_length(lambda side, _: np.array(backwards[side], np.float32), task, [1])
    assert found["1"]["ndcg@1"] == 0
    assert found["1"]["ndcg@3"] == approx(1 / np.log2(3))


@pytest.mark.numeric
def test_the_card_and_the_result_say_how_each_length_ranks(nested, data):
    run, result = nested
    ranker = SemanticRanker.load(run)
    task = ValidationTask.of(Preprocessed(data.path), 2000, 20000)
    sides = [ranker.encode_queries(task.queries), ranker.encode_titles(task.titles)]
    cut = [side[:, :2].astype(float) for side in sides]
    unit = Vectors(*(side / np.linalg.norm(side, axis=1, keepdims=True) for side in cut))
    assert [*result.by_length] == ["2", "4", "6"]
    assert result.by_length["2"] == approx(task.ndcg(unit))
    assert result.by_length["6"]["ndcg@10"] == approx(result.ndcg["cosine ndcg@10"])
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    values = " | ".join(f"{value:.4f}" for value in result.by_length["4"].values())
    assert f"| 4 | {values} |" in card
    assert train(parse_config(RAW), data.path, run, quiet=True) == replace(result, seconds=0.0)


@pytest.mark.numeric
def test_a_compact_export_of_fewer_numbers_has_the_first_ones(nested, tmp_path):
    run, _ = nested
    target, _ = export_compact(run, tmp_path / "compact", dimension=2)
    texts = ["red fox", "white whale", "owl"]
    whole = SemanticRanker.load(run).encode_titles(texts)[:, :2]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    # Cut vectors are brought to length one: what was rounding of the whole grows with it.
    grown = 1 / float(np.linalg.norm(whole, axis=1).min())
    assert Ranker.load(target).encode_titles(texts) == approx(expected, abs=grown * rounding(40, 2))
    assert "vectors of 2 numbers,\n6 in training" in (target / "MODEL_CARD.md").read_text("utf-8")


def test_a_length_that_is_not_below_the_tower_s_is_refused(data, tmp_path):
    raw = config(training__nested_lengths=[2, 6])
    with pytest.raises(UserError, match=r"nested_lengths: 6 is not shorter than .* 6 numbers"):
        train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_lengths_that_do_not_increase_are_refused_by_name():
    with pytest.raises(UserError, match=r"training\.nested_lengths: input should increase"):
        parse_config(config(training__nested_lengths=[4, 2]))
