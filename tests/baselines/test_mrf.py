"""The Markov random field: scores by hand and by definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.mrf import MRF
from tests.baselines.cases import CORPUS, TEXT, joined
from tests.reference import term_dependence as reference

TITLES = ["red hat box", "hat red", "blue hat"]


def test_a_score_by_hand():
    # "red hat" in "red hat box", mu = 2; the corpus has 7 words: red 2, hat 3; "red hat" in order
    # once, near each other in two titles. Each feature is log((1 + 2 cf / 7) / (3 + 2)).
    words = math.log((1 + 2 * 2 / 7) / 5) + math.log((1 + 2 * 3 / 7) / 5)
    ordered, unordered = math.log((1 + 2 * 1 / 7) / 5), math.log((1 + 2 * 2 / 7) / 5)
    model = MRF(mu=2.0, weights=(0.5, 0.3, 0.2)).fit([], TITLES)
    expected = 0.5 * words + 0.3 * ordered + 0.2 * unordered
    assert model.score("red hat", TITLES)[0] == pytest.approx(expected, rel=1e-12)


@given(
    CORPUS, CORPUS, TEXT, st.sampled_from([(0.3, (0.85, 0.1, 0.05), 8), (50.0, (0.2, 0.3, 0.5), 3)])
)
def test_scores_equal_the_definition_on_titles_inside_and_outside(corpus, others, query, settings):
    mu, weights, window = settings
    known = {word for title in corpus for word in title}
    query = [word for word in query if word in known] or [corpus[0][0]]
    model = MRF(mu=mu, weights=weights, window=window).fit([], joined(corpus))
    titles = [*corpus, *others]
    expected = [reference.mrf(query, title, corpus, *settings) for title in titles]
    assert model.score(" ".join(query), joined(titles)) == pytest.approx(expected, rel=1e-9)


def test_a_word_outside_the_corpus_has_no_feature_and_separates_its_neighbors():
    model = MRF(weights=(0.8, 0.1, 0.1)).fit([], TITLES)
    words = model.score_matrix(["red", "box"], TITLES)
    assert model.score("red tie box", TITLES) == pytest.approx(words.sum(axis=0))
