"""Common tests of PLSA, LDA and BLTM: mixtures, probabilities, scores."""

from collections import Counter

import numpy as np
import pytest
from pytest import approx

from dssm_tf.baselines.bltm import BLTM
from dssm_tf.baselines.lda import LDA
from dssm_tf.baselines.plsa import PLSA
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.topic_model import fold_in
from dssm_tf.text.rules import FOLDED
from tests.baselines.planted_topics import planted_clicks, purity
from tests.reference.query_likelihood import topic_score

CLICKS = planted_clicks(60, seed=1)
TITLES = [title for _, title, _ in CLICKS[:40]]
QUERIES = [f"{query} t{row % 4}x1" for row, (query, _, _) in enumerate(CLICKS[:10])]
QUERIES.append("t0x1 t0x1 unseen t2x3")
OTHERS = ["t0x1 t1x2 never seen", "never seen", ""]


@pytest.fixture(scope="module", params=[PLSA, LDA, BLTM])
def model(request):
    return request.param(topics=4, iterations=20, mu=5.0, topic_weight=0.4).fit(CLICKS, TITLES)


def test_topics_and_mixtures_are_distributions(model):
    for words in (model.learned.query_word_probabilities, model._title_word_probabilities()):
        assert words.sum(axis=0) == approx(np.ones(4))
    mixtures = model.mixtures([*TITLES, *OTHERS])
    assert (mixtures >= 0).all()
    assert mixtures.sum(axis=1) == approx(np.ones(len(mixtures)))
    # A title without a known word has the mixture of the prior.
    assert mixtures[-2:] == approx(np.full((2, 4), 1 / 4))


def test_scores_equal_the_definition(model):
    # The collection is every distinct title of the corpus and of the log.
    distinct = {*TITLES, *(title for _, title, _ in CLICKS)}
    collection = Counter(word for title in distinct for word in FOLDED.words(title))
    titles = [*TITLES[:4], *OTHERS]
    topics = list(model.learned.terms.words), model.learned.query_word_probabilities
    expected = [
        [
            topic_score(
                FOLDED.words(query), FOLDED.words(title), collection, 5.0, 0.4, *topics, mixture
            )
            for title, mixture in zip(titles, model.mixtures(titles), strict=True)
        ]
        for query in QUERIES
    ]
    assert model.score_matrix(QUERIES, titles) == approx(np.array(expected), rel=1e-9, abs=1e-9)


def test_titles_in_several_blocks_have_the_same_scores(model, monkeypatch):
    expected = model.score_matrix(QUERIES, TITLES)
    monkeypatch.setattr("dssm_tf.baselines.topic_model._CELLS", 100)
    assert (model.with_parameters().score_matrix(QUERIES, TITLES) == expected).all()


def test_folding_in_finds_the_most_likely_mixture():
    # Two topics: p(a|1) = .9, p(b|1) = .1; p(a|2) = .2, p(b|2) = .8. Of "a a b" the likelihood
    # p(a)^2 p(b) is largest at p(a) = 2/3: .2 + .7 s = 2/3, s = 2/3. EM gets there slowly.
    terms, words = Terms(["a", "b"]), np.array([[0.9, 0.2], [0.1, 0.8]])
    mixtures = fold_in(terms.count(["a a b"]), words, 0.0)
    assert mixtures[0] == approx([2 / 3, 1 / 3], abs=1e-3)
    # With a strong prior the mixture is uniform.
    assert fold_in(terms.count(["a a b"]), words, 3e6)[0] == approx([0.5, 0.5], abs=1e-5)


OPTIONS = {"topics": 4, "mixture_prior": 0.01, "word_prior": 0.01}


@pytest.mark.parametrize("model", [PLSA(**OPTIONS), LDA(topics=4, iterations=200), BLTM(**OPTIONS)])
def test_planted_topics_are_recovered_on_both_sides_together(model):
    model.fit(planted_clicks(400, seed=0), [])
    # 10 % of the words are of any topic, so a pure topic keeps 1 - .1 * 3/4 of its own at best.
    both = (model.learned.query_word_probabilities + model._title_word_probabilities()) / 2
    assert min(purity(model.learned.terms.words, both)) > 0.85


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.1, 0.1), (0.0, 0.5), (2.0, 0.0)])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(PLSA, {}), (BLTM, {"constraint_tolerance": 1e-9, "constraint_iterations": 20_000})],
)
def test_the_objective_never_falls(kind, options, a, b):
    clicks = [
        (query, title, 1.0 + row % 3)
        for row, (query, title, _) in enumerate(planted_clicks(60, seed=2, mixing=0.5))
    ]
    model = kind(topics=5, mixture_prior=a, word_prior=b, iterations=25, tolerance=-1.0, **options)
    objective = np.array(model.fit(clicks, []).learned.objective)
    assert len(objective) == 25
    # Rounding, and the gaps of BLTM's constraint, allow tiny decreases.
    assert (np.diff(objective) > -1e-6).all()
    assert objective[-1] > objective[0]
