"""DSE, SSI, PSI and DSE with TF-IDF on clicks: tests besides those of all baselines."""

import functools

import numpy as np
import pytest

from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.dse.click_matrix import ClickMatrix
from dssm_tf.dse.dse_tfidf import DSEWithTfIdf
from dssm_tf.dse.networks import PSIPair, pair_scores
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.rankers import DSE, PSI, SSI

ANIMALS = ("wolf", "bear", "lynx", "hare")
TITLES = [f"{color} {animal}" for animal in ANIMALS for color in ("red", "blue", "gray")]
# Queries name each animal by a word that no title contains.
NAMES = {"wolf": "lupus", "bear": "ursus", "lynx": "feline", "hare": "lepus"}
CLICKS = [(f"{NAMES[title.split()[1]]} {title.split()[0]}", title, 2.0) for title in TITLES]


@functools.cache
def fitted(baseline, **options):
    options = {"steps": 200, "dimension": 4, "validation_fraction": 0.0} | options
    return baseline(**options).fit(CLICKS, TITLES)


@pytest.mark.long
@pytest.mark.parametrize("baseline", [DSE, SSI, PSI])
def test_query_words_that_no_title_contains_are_related_to_title_words(baseline):
    """Random scores have a rank loss of 50 %."""
    model = fitted(baseline, steps=600, dimension=11)
    data = ClickMatrix.from_clicks(CLICKS, TITLES, "clicks")
    assert rank_loss(model.score_matrix(data.queries, data.titles), data.clicks) < 15


def test_scores_are_those_of_the_trained_keras_model():
    model = fitted(PSI, steps=20)
    keras_model = PSIPair(len(model.learned.words), 4)
    keras_model.set_weights(model.learned.matrices)
    queries = [query for query, *_ in CLICKS]
    expected = pair_scores(keras_model, model._bag.transform(queries), model._bag.transform(TITLES))
    scores = model.score_matrix(queries, TITLES)
    np.testing.assert_allclose(scores, expected(np.arange(len(queries))), rtol=1e-4, atol=1e-4)


def test_dse_with_two_towers_and_a_learned_matrix_a_is_saved_and_loaded(tmp_path):
    model = fitted(DSE, shared=False, bilinear=True, steps=20, pretraining_steps=5)
    assert not np.array_equal(model.learned.matrices[0], model.learned.matrices[8])
    model.save(tmp_path)
    loaded = DSE.load(tmp_path)
    assert (loaded.shared, loaded.bilinear, loaded.steps) == (False, True, 20)
    scores = model.score_matrix(["lupus red"], TITLES)
    assert (loaded.score_matrix(["lupus red"], TITLES) == scores).all()


def test_the_weight_of_tf_idf_has_the_least_validation_loss():
    model = DSEWithTfIdf(steps=20, pretraining_steps=5, dimension=4, validation_fraction=0.4)
    model.fit([(title, title, 1.0) for title in TITLES], TITLES)
    # Each query equals its title, so TF-IDF alone has a validation loss of 0, and a DSE that was
    # trained for 20 steps does not. These are the validation queries:
    queries = [TITLES[i] for i in np.random.default_rng(0).permutation(12)[:4]]
    scores = model.score_matrix(queries, TITLES)
    assert [TITLES[i] for i in scores.argmax(axis=1)] == queries


@pytest.mark.long
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_combination_is_linear(weight):
    model = fitted(DSEWithTfIdf).with_parameters(tfidf_weight=weight)
    queries = [query for query, *_ in CLICKS]
    semantic = fitted(DSE).score_matrix(queries, TITLES) / model.learned.scale
    assert semantic.std() == pytest.approx(1)
    lexical = TfIdf().fit([], TITLES).score_matrix(queries, TITLES)
    expected = (1 - weight) * semantic + weight * lexical
    np.testing.assert_allclose(model.score_matrix(queries, TITLES), expected)


@pytest.mark.parametrize("baseline", [SSI, DSEWithTfIdf])
def test_a_validation_query_with_clicks_on_every_title_is_not_evaluated(baseline):
    titles = TITLES[:2]
    clicks = [*(("lupus", title, 1.0) for title in titles), ("ursus", titles[0], 1.0)]
    data = ClickMatrix.from_clicks(clicks, titles, "clicks")
    validation_rows, _ = data.split_queries(0.5, 0)
    assert data.clicks[validation_rows].nnz == 2
    options = {"pretraining_steps": 1} if baseline is DSEWithTfIdf else {}
    model = baseline(steps=2, validation_fraction=0.5, **options).fit(clicks, titles)
    assert np.isfinite(model.score_matrix(["lupus"], TITLES)).all()
