"""Exports of a model that compares words: the same scores from run, SavedModel and NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import export_compact
from dssm_tf.export.load import load, load_vector_ranker
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.model.load_run import load_run
from dssm_tf.model.maxsim_run import MaxSimRun
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.text.rules import TextRules
from tests.clicks import Click, write_data
from tests.reference import maxsim as reference
from tests.runs import finished_run

CONFIG = {
    "tower": {"name": "words", "units": 6},
    "score": {"name": "maxsim", "text_cosine": 0.4, "text_units": 5},
    "shared_towers": True,
    "whole_words": True,
}
LOG = [
    Click("red fox", "The Red Fox", 5),
    Click("red owl", "the red owl", 2),
    Click("black bear", "black bear and the red fox", 1),
    Click("tiger", "tíger & \U0001f405 / 虎", 1),
]
TITLES = [click.title for click in LOG] + ["a title nobody knows", "the red fox fox"]
TOLERANCE = 1e-5  # float32 sums in different orders


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=pytest.mark.slow), 2],
    ids=["shared fields", "own fields"],
)
def run(tmp_path_factory, request) -> Path:
    folder = tmp_path_factory.mktemp("maxsim")
    rules = TextRules(False, max_words=6, max_letters=9, own_fields=request.param)
    log = LOG if request.param == 1 else [*LOG, Click("fox shop", "red fox␟the fox shop", 3)]
    data = write_data(folder / "data", log, validation=(), negatives=1, rules=rules)
    return finished_run(folder / "run", data, CONFIG, 0.25)


@pytest.fixture(scope="module")
def ranker(run) -> MaxSimRun:
    ranker = load_run(run)
    assert isinstance(ranker, MaxSimRun)
    return ranker


def test_a_run_has_the_scores_of_the_definition(ranker):
    vocabulary, frequencies = ranker.vocabulary, ranker.frequencies
    texts = [*map(vocabulary.words, [*ADVERSARIAL, *TITLES])]
    definition = reference.MaxSim(
        ranker.model.query_tower.hashing.kernel.numpy(),
        ranker.model.score.importance.numpy(),
        [1.0, 0.3],
        [-2.0, -2.0],
        0.2,
        {word: vocabulary.look_up(word) for text in texts for word in text},
        frequencies.titles,
        frequencies.words,
        frequencies.pairs,
        ranker.model.score.text_hashing.kernel.numpy(),
        ranker.model.score.text_importance.numpy(),
        0.4,
    )
    expected = [[definition.score(query, title) for title in texts] for query in texts]
    values = ranker.similarity_matrix([*ADVERSARIAL, *TITLES], [*ADVERSARIAL, *TITLES])
    np.testing.assert_allclose(values, expected, atol=TOLERANCE)


def test_frequencies_of_a_run_count_distinct_titles(ranker):
    assert ranker.frequencies.words["red"] >= 3
    assert ranker.frequencies.pairs["the red"] == 3
    assert "black bear" not in ranker.frequencies.pairs  # one title


@pytest.mark.long
def test_a_saved_model_has_the_scores_of_the_run(run, ranker, tmp_path):
    directory = export_saved_model(run, tmp_path)
    assert directory.parent.name == "maxsim"
    signatures = tf.saved_model.load(str(directory)).signatures
    assert set(signatures) == {"score", "serving_default"}
    queries = [*ADVERSARIAL, "red fox", "fox shop"] * 2
    titles = [TITLES[row % len(TITLES)] for row in range(len(queries))]
    encoded = [
        tf.constant([text.encode("utf-8", "surrogatepass") for text in texts])
        for texts in (queries, titles)
    ]
    values = signatures["score"](queries=encoded[0], titles=encoded[1])["scores"]
    expected = ranker.score_matrix(queries, titles).diagonal()
    np.testing.assert_allclose(values, expected, atol=TOLERANCE)
    loaded = load(directory)
    np.testing.assert_allclose(
        loaded.score_matrix(ADVERSARIAL, TITLES),
        ranker.score_matrix(ADVERSARIAL, TITLES),
        atol=TOLERANCE,
    )
    np.testing.assert_allclose(
        loaded.similarity_matrix(["fox"], TITLES),
        ranker.similarity_matrix(["fox"], TITLES),
        atol=TOLERANCE,
    )
    assert loaded.vocabulary.fingerprint == ranker.vocabulary.fingerprint


@pytest.mark.parametrize(("number_type", "tolerance"), [("float32", 1e-6), ("float16", 5e-3)])
def test_a_compact_model_has_the_scores_of_the_run(run, ranker, tmp_path, number_type, tolerance):
    compact = load(export_compact(run, tmp_path, number_type=number_type))
    values = compact.score_matrix(ADVERSARIAL, TITLES)
    expected = ranker.score_matrix(ADVERSARIAL, TITLES)
    np.testing.assert_allclose(values, expected, atol=tolerance)


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("similarities", lambda _, cosines: np.maximum(cosines - 0.19, 0) / 0.81),
        ("pair_weights", lambda _, pairs: np.ones((len(pairs), 2), np.float32)),
    ],
    ids=["another threshold", "other weights of pairs"],
)
def test_a_compact_export_fails_if_numpy_and_keras_have_other_scores(
    run, tmp_path, monkeypatch, method, changed
):
    monkeypatch.setattr(MaxSim, method, changed)
    with pytest.raises(UserError, match=r"score_matrix of .* differs by .*; nothing was exported"):
        export_compact(run, tmp_path)
    assert not list(tmp_path.rglob("compact.json"))


@pytest.mark.parametrize("number_type", ["float32", "float16", "int8"])
def test_a_compact_export_agrees_with_keras(run, tmp_path, number_type):
    export_compact(run, tmp_path, number_type=number_type)


def test_a_compact_model_in_int8_is_a_quarter_of_the_size(run, tmp_path):
    sizes = {}
    for number_type in ("float32", "int8"):
        model = export_compact(run, tmp_path / number_type, number_type=number_type)
        sizes[number_type] = (model / "weights.npz").stat().st_size
    assert sizes["int8"] < sizes["float32"]
    assert load(tmp_path / "int8" / "maxsim").rank("red fox", TITLES)[0].title == "The Red Fox"


def test_what_needs_vectors_refuses_the_model_in_one_sentence(run):
    for load_vectors in (load_vector_ranker, SemanticRanker.load):
        with pytest.raises(UserError, match="is a maxsim model, which has no vector per text"):
            load_vectors(run)
