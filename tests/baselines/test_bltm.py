"""BLTM: the pair constraint, and equality of posteriors and EM steps with a reference."""

import numpy as np
from pytest import approx
from scipy import sparse

from dssm_tf.baselines.bltm import BLTM, BilingualEM, PairSide
from dssm_tf.baselines.coupled_posterior import PairWords, constrained_e_step
from tests.baselines.planted_topics import planted_clicks
from tests.reference.topic_models import bltm_step, coupled_posterior


def test_the_pair_constraint_holds_at_every_step():
    clicks = planted_clicks(60, seed=2, mixing=0.5)
    model = BLTM(
        topics=5,
        iterations=10,
        tolerance=-1.0,
        constraint_tolerance=1e-6,
        constraint_iterations=5_000,
    ).fit(clicks, [])
    assert len(model.learned.gaps) == 10
    assert max(model.learned.gaps) <= 1e-6
    # One iteration is not enough: the constraint does not hold by itself.
    one_iteration = BLTM(
        topics=5, iterations=10, tolerance=-1.0, constraint_iterations=1, constraint_tolerance=1e-9
    ).fit(clicks, [])
    assert max(one_iteration.learned.gaps) > 1e-3


def pair_words(pairs):
    """The words of one side of pairs, from `p(w|z)` of the words of each, padded to five words."""
    probabilities = np.ones((len(pairs), 5, pairs[0].shape[1]))
    counts = np.zeros((len(pairs), 5))
    for row, words in enumerate(pairs):
        probabilities[row, : len(words)] = words
        counts[row, : len(words)] = 1
    return PairWords(probabilities, counts, np.zeros(counts.shape, int))


def test_posteriors_equal_those_of_direct_minimization():
    random = np.random.default_rng(0)
    mixtures = random.dirichlet(np.ones(3), 5)
    queries, titles = (
        [random.dirichlet(np.ones(9), 3).T[: row % max_words + 1] for row in range(5)]
        for max_words in (2, 5)
    )
    # The pairs converge after different numbers of iterations.
    posterior = constrained_e_step(
        mixtures, pair_words(queries), pair_words(titles), np.zeros((5, 3)), 1e-10, 10_000
    )
    assert np.abs(posterior.query.fractions - posterior.title.fractions).max() <= 1e-10
    for row, (mixture, query, title) in enumerate(zip(mixtures, queries, titles, strict=True)):
        *expected, divergence = coupled_posterior(mixture, query, title)
        for side_posterior, words, r in zip(posterior[1:], (query, title), expected, strict=True):
            likelihoods = side_posterior.likelihoods[row, : len(words), None]
            assert words * side_posterior.mixtures[row] / likelihoods == approx(r, abs=1e-5)
        likelihood = np.log(query @ mixture).sum() + np.log(title @ mixture).sum()
        assert posterior.objective[row] == approx(likelihood - divergence, abs=1e-7)


def test_em_steps_equal_the_reference(monkeypatch):
    monkeypatch.setattr("dssm_tf.baselines.bltm._PAIRS", 2)  # more than one block
    random = np.random.default_rng(3)
    queries = random.integers(0, 3, (5, 4)).astype(float)
    titles = random.integers(0, 2, (5, 4)).astype(float)
    queries[:, 0] += 1  # no row is empty
    titles[:, 3] += 1
    clicks = np.array([1.0, 2.0, 5.0, 1.0, 3.0])
    words = random.dirichlet(np.ones(4), (2, 3)).transpose(0, 2, 1)
    sides = [
        PairSide(sparse.csr_matrix(counts), np.zeros((3, 1), int)) for counts in (queries, titles)
    ]
    for em_side, start in zip(sides, words, strict=True):
        em_side.words = start
    em = BilingualEM(*sides, clicks)
    reference = (em.mixtures, *words)
    for _ in range(3):
        objective, gap = em.em_step(0.3, 0.2, 1e-10, 10_000)
        assert gap <= 1e-10
        *reference, expected = bltm_step(queries, titles, clicks, *reference, 0.3, 0.2)
        assert objective == approx(expected, abs=1e-4)
        for values, expected in zip(
            (em.mixtures, em.query.words, em.title.words), reference, strict=True
        ):
            assert values == approx(expected, abs=1e-4)


def test_one_word_per_side_by_hand():
    # Query word: p(z|w) ~ (.8, .2); title word: (.2, .8). Equal fractions nearest to both are
    # the normalized geometric mean, (1/2, 1/2); each side's KL is .5 log(.5/.8) + .5 log(.5/.2).
    query, title = pair_words([np.array([[0.8, 0.2]])]), pair_words([np.array([[0.2, 0.8]])])
    posterior = constrained_e_step(
        np.array([[0.5, 0.5]]), query, title, np.zeros((1, 2)), 1e-12, 1000
    )
    assert posterior.query.fractions[0] == approx([0.5, 0.5])
    assert posterior.title.fractions[0] == approx([0.5, 0.5])
    # p(w) = .5 * .8 + .5 * .2 = .5 on both sides.
    cost = 2 * (0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2))
    assert posterior.objective[0] == approx(2 * np.log(0.5) - cost)
