"""Loaded models of all kinds have the same vectors, scores and errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.export.load import load_model, load_vector_ranker
from dssm_tf.retrieval.opening import open_index
from dssm_tf.systems import BASELINES

QUERIES = ["red fox", "", "zzyzx", "the white whale"]
TITLES = ["green owl", "the red fox", "", "RED fox!", "green owl"]
TOLERANCE = 1e-5  # tolerance for float32 sums in different orders


@pytest.fixture(params=["run", "export", "compact"])
def model(models, request):
    return models[request.param]


def test_rank_returns_the_best_title_first_and_ties_in_the_order_of_the_input(model):
    scores = model.score("red fox", TITLES)
    frame = model.rank("red fox", TITLES)
    assert frame["rank"].to_list() == [1, 2, 3, 4, 5]
    ranking = frame.select("position", "title", "score").rows()
    order = sorted(range(5), key=lambda position: -scores[position])  # keeps the order of ties
    assert ranking == [(position, TITLES[position], scores[position]) for position in order]
    assert scores[0] == scores[4]
    assert scores[1] != scores[3]  # `the` is an additional word


def test_scores_are_inner_products_of_unit_vectors_with_the_prior(model):
    queries = model.encode_queries(QUERIES, prior=True)
    titles = model.encode_titles(TITLES, prior=True)
    matrix = model.score_matrix(QUERIES, TITLES)
    assert matrix == approx(queries @ titles.T, abs=TOLERANCE)
    assert model.score(QUERIES[0], TITLES) == approx(matrix[0], abs=TOLERANCE)
    vectors = model.encode_queries(QUERIES)
    assert vectors == approx(queries[:, :6], abs=TOLERANCE)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths == approx([1, 0, lengths[2], 1], abs=1e-6)  # 0 for an empty query
    assert (titles.shape, titles.dtype) == ((5, 7), np.float32)


def test_every_kind_of_model_has_the_vectors_and_scores_of_the_run(model, models):
    run = models["run"]
    assert model.name == ("dssm" if model is run else "fox")
    assert model.encode_titles(TITLES) == approx(run.encode_titles(TITLES), abs=TOLERANCE)
    scores = run.score_matrix(QUERIES, TITLES)
    assert model.score_matrix(QUERIES, TITLES) == approx(scores, abs=TOLERANCE)


def test_lists_may_be_arrays_and_generators_and_be_empty(model):
    expected = approx(model.score("red fox", TITLES), abs=TOLERANCE)
    assert model.score("red fox", np.array(TITLES)) == expected
    assert model.score("red fox", (title for title in TITLES)) == expected
    assert model.rank("red fox", []).shape == (0, 5)
    assert model.score("red fox", []).shape == (0,)
    assert model.score_matrix([], TITLES).shape == (0, 5)
    assert model.encode_queries([]).shape == (0, 6)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("rank", ("red fox", "green owl"), "titles is one str; expected a list of str"),
        ("score", ("red fox", ["owl", None]), r"titles\[1\] is None; expected str"),
        ("rank", (b"fox", ["owl"]), "queries is one bytes; expected a list of str"),
        ("encode_queries", ("fox",), "queries is one str"),
    ],
)
def test_arguments_other_than_lists_of_strings_are_refused(models, method, arguments, message):
    with pytest.raises(TypeError, match=message):
        getattr(models["run"], method)(*arguments)


def test_a_custom_name_replaces_the_default_name(run, exported):
    for path in (run, exported):
        assert dssm_tf.load(path, name="mine").name == "mine"
    for path in (exported / "1", exported.parent):
        assert dssm_tf.load(path).name == "fox"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "does not exist; expected"),
        ("data/spec.json", "contains no trained model; "),
        ("data", "by `dssm preprocess`: train on it first"),
        ("", "contains no trained model; "),
    ],
)
def test_directories_without_a_model_are_refused_in_one_line(folder, run, exported, path, message):
    with pytest.raises(dssm_tf.UserError, match=message) as caught:
        dssm_tf.load(folder / path)
    assert "\n" not in str(caught.value)


def test_a_copy_of_every_kind_of_model_has_its_name_and_scores(model, tmp_path):
    model.save(tmp_path / "fox")
    copy = dssm_tf.load(tmp_path / "fox")
    assert copy.name == model.name
    assert copy.score("red fox", TITLES).tolist() == model.score("red fox", TITLES).tolist()


def test_a_saved_baseline_is_a_ranker_too(tmp_path):
    saved = BASELINES["bm25"]().fit([], TITLES)
    saved.save(tmp_path)
    loaded = dssm_tf.load(tmp_path)
    assert loaded.name == "bm25"
    assert loaded.score("red fox", TITLES).tolist() == saved.score("red fox", TITLES).tolist()
    with pytest.raises(dssm_tf.UserError, match="is a baseline; give a trained model"):
        load_model(tmp_path)
    with pytest.raises(dssm_tf.UserError, match="is a baseline, which has no vectors"):
        load_vector_ranker(tmp_path)


def test_a_damaged_run_is_refused(run, tmp_path):
    weights = shutil.copytree(run, tmp_path / "run") / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(dssm_tf.UserError, match=r"model\.weights\.h5"):
        dssm_tf.load(tmp_path / "run")


def test_a_url_of_a_store_is_not_called_a_missing_directory():
    for path in ("gs://bucket/run", Path("gs://bucket/run")):
        for read in (dssm_tf.load, open_index):
            with pytest.raises(dssm_tf.UserError, match=r"^gs://bucket/run is not a local path"):
                read(path)
