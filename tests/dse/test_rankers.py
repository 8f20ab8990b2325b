"""DSE, SSI, PSI and DSE with TF-IDF as baselines on clicks, beyond the contract."""

import functools

import numpy as np
import pytest

from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.dse.click_matrix import ClickMatrix
from dssm_tf.dse.dse_tfidf import DSEWithTfIdf
from dssm_tf.dse.networks import PSIPair, pair_scores
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.rankers import DSE, PSI, SSI

KINDS = ("wolf", "bear", "lynx", "hare")
TITLES = [f"{color} {kind}" for kind in KINDS for color in ("red", "blue", "gray")]
# Queries name each animal by a word that no title contains.
NAMES = {"wolf": "lupus", "bear": "ursus", "lynx": "feline", "hare": "lepus"}
CLICKS = [(f"{NAMES[title.split()[1]]} {title.split()[0]}", title, 2.0) for title in TITLES]


@functools.cache
def fitted(kind, **options):
    options = {"steps": 200, "dimension": 4, "validation_fraction": 0.0} | options
    return kind(**options).fit(CLICKS, TITLES)


@pytest.mark.parametrize("kind", [DSE, SSI, PSI])
def test_it_learns_relations_of_words_of_queries_and_titles(kind):
    """Titles do not contain words such as lupus: random scores have a rank loss of 50 %."""
    ours = fitted(kind, steps=600, dimension=11)
    data = ClickMatrix.of(CLICKS, TITLES, "clicks")
    assert rank_loss(ours.score_matrix(data.queries, data.titles), data.clicks) < 15


def test_scores_are_those_of_the_trained_keras_model():
    ours = fitted(PSI, steps=20)
    model = PSIPair(len(ours.learned.words), 4)
    model.set_weights(ours.learned.matrices)
    queries = [query for query, *_ in CLICKS]
    expected = pair_scores(model, ours._bag.transform(queries), ours._bag.transform(TITLES))
    scores = ours.score_matrix(queries, TITLES)
    np.testing.assert_allclose(scores, expected(np.arange(len(queries))), rtol=1e-4, atol=1e-4)


def test_dse_with_two_towers_and_a_learned_matrix_a_is_saved_and_loaded(tmp_path):
    ours = fitted(DSE, shared=False, bilinear=True, steps=20, pretraining_steps=5)
    assert not np.array_equal(ours.learned.matrices[0], ours.learned.matrices[8])
    ours.save(tmp_path)
    loaded = DSE.load(tmp_path)
    assert (loaded.shared, loaded.bilinear, loaded.steps) == (False, True, 20)
    scores = ours.score_matrix(["lupus red"], TITLES)
    assert (loaded.score_matrix(["lupus red"], TITLES) == scores).all()


def test_the_weight_of_tf_idf_has_the_least_validation_loss():
    ours = DSEWithTfIdf(steps=20, pretraining_steps=5, dimension=4, validation_fraction=0.4)
    ours.fit([(title, title, 1.0) for title in TITLES], TITLES)
    # Each query equals its title, so TF-IDF alone has no loss; a DSE trained this briefly has.
    queries = [TITLES[i] for i in np.random.default_rng(0).permutation(12)[:4]]
    scores = ours.score_matrix(queries, TITLES)
    assert [TITLES[i] for i in scores.argmax(axis=1)] == queries


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_combination_is_linear(weight):
    ours = fitted(DSEWithTfIdf).with_parameters(weight=weight)
    queries = [query for query, *_ in CLICKS]
    semantic = fitted(DSE).score_matrix(queries, TITLES) / ours.learned.scale
    assert semantic.std() == pytest.approx(1)
    lexical = TfIdf().fit([], TITLES).score_matrix(queries, TITLES)
    expected = (1 - weight) * semantic + weight * lexical
    np.testing.assert_allclose(ours.score_matrix(queries, TITLES), expected)


@pytest.mark.parametrize("kind", [SSI, DSEWithTfIdf])
def test_a_validation_query_with_clicks_on_every_title_is_not_evaluated(kind):
    titles = TITLES[:2]
    clicks = [*(("lupus", title, 1.0) for title in titles), ("ursus", titles[0], 1.0)]
    data = ClickMatrix.of(clicks, titles, "clicks")
    chosen, _ = data.split_queries(0.5, 0)
    assert data.clicks[chosen].nnz == 2
    options = {"pretraining_steps": 1} if kind is DSEWithTfIdf else {}
    ours = kind(steps=2, validation_fraction=0.5, **options).fit(clicks, titles)
    assert np.isfinite(ours.score_matrix(["lupus"], TITLES)).all()
