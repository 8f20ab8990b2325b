"""What PLSA, LDA and BLTM share: mixtures, probabilities, scores."""

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
OTHERS = ["t0x1 t1x2 never seen", "never seen", ""]


@pytest.fixture(scope="module", params=[PLSA, LDA, BLTM])
def model(request):
    return request.param(topics=4, iterations=20, mu=5.0, weight=0.4).fit(CLICKS, TITLES)


def test_probabilities_sum_to_one(model):
    ones = np.ones(4)
    assert model.query_words.sum(axis=0) == approx(ones)
    assert model._title_words().sum(axis=0) == approx(ones)
    mixtures = model.mixtures([*TITLES, *OTHERS])
    assert (mixtures >= 0).all()
    assert mixtures.sum(axis=1) == approx(np.ones(len(TITLES) + len(OTHERS)))


def test_scores_equal_the_definition(model):
    # The collection is every distinct title of the corpus and of the log.
    collection = Counter(
        word
        for title in {*TITLES, *(title for _, title, _ in CLICKS)}
        for word in FOLDED.words(title)
    )
    titles = [*TITLES[:4], *OTHERS]
    scores = model.score_matrix([*QUERIES, "t0x1 t0x1 unseen t2x3"], titles)
    mixtures = model.mixtures(titles)
    known = list(model.terms.words)
    for query, row in zip([*QUERIES, "t0x1 t0x1 unseen t2x3"], scores, strict=True):
        for title, mixture, score in zip(titles, mixtures, row, strict=True):
            expected = topic_score(
                FOLDED.words(query),
                FOLDED.words(title),
                collection,
                5.0,
                0.4,
                known,
                model.query_words,
                mixture,
            )
            assert score == approx(expected, rel=1e-9, abs=1e-9)


def test_a_title_without_a_known_word_has_the_priors_shares(model):
    assert model.mixtures(OTHERS[1:]) == approx(np.full((2, 4), 1 / 4))


def test_many_words_and_titles_are_scored_in_parts_with_the_same_result(model, monkeypatch):
    expected = model.score_matrix(QUERIES, TITLES)
    monkeypatch.setattr("dssm_tf.baselines.topic_model._CELLS", 100)
    copy = model.with_parameters()
    assert (copy.score_matrix(QUERIES, TITLES) == expected).all()
    assert (copy.mixtures(TITLES) == model.mixtures(TITLES)).all()


def test_folding_in_finds_the_most_likely_mixture():
    # Two topics: p(a|1) = .9, p(b|1) = .1; p(a|2) = .2, p(b|2) = .8. Of "a a b" the likelihood
    # p(a)^2 p(b) is largest at p(a) = 2/3: .2 + .7 s = 2/3, s = 2/3. EM gets there slowly.
    terms, made = Terms(["a", "b"]), np.array([[0.9, 0.2], [0.1, 0.8]])
    shares = fold_in(terms.count(["a a b"]), made, 0.0)
    assert shares[0] == approx([2 / 3, 1 / 3], abs=1e-3)
    # With a strong prior the shares are equal.
    assert fold_in(terms.count(["a a b"]), made, 3e6)[0] == approx([0.5, 0.5], abs=1e-5)


@pytest.mark.parametrize(
    "model", [PLSA(mixture_prior=0.01, word_prior=0.01, topics=4), LDA(iterations=200, topics=4)]
)
def test_planted_topics_are_recovered(model):
    model.fit([], [title for _, title, _ in planted_clicks(400, seed=0)])
    # 10 % of the words are of any topic, so a pure topic keeps 1 - .1 * 3/4 of its own at best.
    assert min(purity(model.terms.words, model.query_words, "t")) > 0.85
