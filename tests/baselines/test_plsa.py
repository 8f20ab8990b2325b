"""PLSA: expectation-maximization equals the reference and ends as documented."""

import numpy as np
from pytest import approx

from dssm_tf.baselines.plsa import PLSA, em_step
from dssm_tf.baselines.terms import Terms
from tests.baselines.planted_topics import planted_clicks
from tests.reference.topic_models import plsa_objective, plsa_step


def test_em_steps_equal_the_reference():
    random = np.random.default_rng(0)
    texts = [" ".join(map(str, random.integers(0, 9, 6))) for _ in range(12)]
    counts = Terms.from_texts(texts).count(texts)
    mixtures = random.dirichlet(np.ones(3), 12)
    words = random.dirichlet(np.ones(counts.shape[1]), 3).T
    ours, theirs = (mixtures, words), (mixtures, words)
    for _ in range(4):
        objective = plsa_objective(counts.toarray(), *theirs, 0.1, 0.01)
        *ours, value = em_step(counts, *ours, 0.1, 0.01)
        theirs = plsa_step(counts.toarray(), *theirs, 0.1, 0.01)
        assert value == approx(objective, rel=1e-12)
        assert ours[0] == approx(theirs[0], rel=1e-10)
        assert ours[1] == approx(theirs[1], rel=1e-10)


def test_em_ends_when_the_objective_gains_less_than_the_tolerance():
    clicks = planted_clicks(50, seed=2)
    few, many = (
        len(PLSA(topics=4, tolerance=tolerance).fit(clicks, []).learned.objective)
        for tolerance in (1e-2, 1e-6)
    )
    assert few < many <= 60


def test_clicked_titles_are_learned_from_and_repeats_count_once():
    clicked = PLSA(topics=2).fit([("q", "a b", 9.0), ("r", "a b", 1.0)], ["c d"])
    assert clicked.learned.terms.words == ("a", "b", "c", "d")
    titles_only = PLSA(topics=2).fit([], ["c d", "a b"])
    assert (
        clicked.learned.query_word_probabilities == titles_only.learned.query_word_probabilities
    ).all()
