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
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED
from tests.baselines.planted_topics import planted_clicks
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
    assert model.title_words.sum(axis=0) == approx(ones)
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
    known = list(model.words)
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


def test_the_likelihoods_of_all_words_sum_to_one_in_every_title(model):
    # As one-word queries; a title's words that nobody knows keep their share of the unigrams.
    likely = np.exp(model.score_matrix(model.words, TITLES))
    assert likely.sum(axis=0) == approx(np.ones(len(TITLES)))


def test_a_title_outside_the_log_has_the_same_mixture_in_any_company(model):
    alone = model.mixtures([OTHERS[0]])[0]
    assert (model.mixtures([OTHERS[0]])[0] == alone).all()
    assert (model.mixtures([*TITLES, OTHERS[0], ""])[-2] == alone).all()


def test_a_title_without_a_known_word_has_the_priors_shares(model):
    assert model.mixtures(OTHERS[1:]) == approx(np.full((2, 4), 1 / 4))


def test_other_weights_need_no_new_fit_and_leave_the_model_alone(model):
    before = model.score_matrix(QUERIES, TITLES)
    tuned = model.with_parameters(mu=50.0, weight=0.7)
    fresh = type(model)(topics=4, iterations=20, mu=50.0, weight=0.7).fit(CLICKS, TITLES)
    expected = fresh.score_matrix(QUERIES, TITLES)
    assert (tuned.score_matrix(QUERIES, TITLES) == expected).all()
    assert (model.score_matrix(QUERIES, TITLES) == before).all()
    assert not (before == expected).any()


def test_with_weight_zero_and_one_scores_stay_finite(model):
    for weight in (0.0, 1.0):
        scores = model.with_parameters(weight=weight).score_matrix(QUERIES, [*TITLES, *OTHERS])
        assert np.isfinite(scores).all()


def test_many_words_and_titles_are_scored_in_parts_with_the_same_result(model, monkeypatch):
    expected = model.score_matrix(QUERIES, TITLES)
    monkeypatch.setattr("dssm_tf.baselines.topic_model._CELLS", 100)
    monkeypatch.setattr("dssm_tf.baselines.topic_model._TITLES", 7)
    copy = model.with_parameters()
    assert (copy.score_matrix(QUERIES, TITLES) == expected).all()
    assert (copy.mixtures(TITLES) == model.mixtures(TITLES)).all()


def test_another_seed_is_another_model(model):
    other = type(model)(topics=4, iterations=20, mu=5.0, weight=0.4, seed=1).fit(CLICKS, TITLES)
    assert not (other.query_words == model.query_words).all()


def test_saved_parameters_come_back(model, tmp_path):
    model.with_parameters(mu=3.0).save(tmp_path)
    loaded = type(model).load(tmp_path)
    assert loaded._parameters() == model.with_parameters(mu=3.0)._parameters()
    assert (loaded.mixtures([*TITLES, *OTHERS]) == model.mixtures([*TITLES, *OTHERS])).all()


def test_a_bar_shows_on_the_error_stream_and_only_on_request(model, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    parameters = {"topics": 2, "iterations": 3}
    type(model)(**parameters).fit(CLICKS, TITLES)
    assert capsys.readouterr() == ("", "")
    type(model)(**parameters, progress=True).fit(CLICKS, TITLES)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert model.name in shown.err


def test_impossible_parameters_are_refused(model):
    make = type(model)
    for name, value in (("topics", 0), ("mu", 0.0), ("weight", 1.5), ("weight", -0.1)):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            make(**{name: value})
        if name in make.free:
            with pytest.raises(ValueError, match=f"{name} is {value}"):
                model.with_parameters(**{name: value})


def test_without_a_word_to_learn_from_it_says_so(model):
    with pytest.raises(UserError, match="learn"):
        type(model)().fit([("", "?!", 1.0)], ["", "--"])


def test_folding_in_finds_the_most_likely_mixture():
    # Two topics: p(a|1) = .9, p(b|1) = .1; p(a|2) = .2, p(b|2) = .8. Of "a a b" the likelihood
    # p(a)^2 p(b) is largest at p(a) = 2/3: .2 + .7 s = 2/3, s = 2/3. EM gets there slowly.
    terms, made = Terms(["a", "b"]), np.array([[0.9, 0.2], [0.1, 0.8]])
    shares = fold_in(terms.count(["a a b"]), made, np.zeros(2))
    assert shares[0] == approx([2 / 3, 1 / 3], abs=1e-3)


def test_folding_in_with_a_strong_prior_gives_the_prior():
    terms, made = Terms(["a", "b"]), np.array([[0.9, 0.2], [0.1, 0.8]])
    assert fold_in(terms.count(["a a b"]), made, np.array([3e6, 1e6]))[0] == approx(
        [0.75, 0.25], abs=1e-5
    )
