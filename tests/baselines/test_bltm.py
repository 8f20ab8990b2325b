import numpy as np
import pytest
from pytest import approx
from scipy import sparse

from dssm_tf.baselines.bltm import BLTM, BilingualEM, Language
from dssm_tf.baselines.coupled_posterior import Side, couple
from tests.baselines.planted_topics import planted_clicks, purity
from tests.reference.topic_models import bltm_step, coupled_posterior


def test_planted_topics_are_recovered_on_both_sides_together():
    clicks = planted_clicks(400, seed=0)
    model = BLTM(topics=4, mixture_prior=0.01, word_prior=0.01).fit(clicks, [])
    for side, table in (("q", model.query_words), ("t", model.title_words)):
        assert min(purity(model.terms.words, table, side)) > 0.85
    # The same topic has the words of the same planted one in queries and in titles.
    for topic in range(4):
        query_rows = [word.startswith(f"q{topic}x") for word in model.terms.words]
        title_rows = [word.startswith(f"t{topic}x") for word in model.terms.words]
        assert (
            model.query_words[query_rows].sum(axis=0).argmax()
            == model.title_words[title_rows].sum(axis=0).argmax()
        )


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.1, 0.1), (0.0, 0.5)])
def test_the_objective_never_falls(a, b):
    clicks = [
        (query, title, 1.0 + row % 3)
        for row, (query, title, _) in enumerate(planted_clicks(60, seed=2, mixing=0.5))
    ]
    model = BLTM(
        topics=5, mixture_prior=a, word_prior=b, iterations=25, tolerance=-1.0, gap=1e-9,
        rounds=20_000,
    )  # fmt: skip
    objective = np.array(model.fit(clicks, []).objective)
    assert len(objective) == 25
    # As far as the constraint is met: the gaps that are left cost about gap times multiplier.
    assert (np.diff(objective) > -1e-6).all()
    assert objective[-1] > objective[0]


def test_the_pair_constraint_holds_at_every_step():
    clicks = planted_clicks(60, seed=2, mixing=0.5)
    model = BLTM(topics=5, iterations=10, tolerance=-1.0, gap=1e-6, rounds=5_000).fit(clicks, [])
    assert len(model.gaps) == 10
    assert max(model.gaps) <= 1e-6
    # It is not met by itself: with one round the sides disagree.
    free = BLTM(topics=5, iterations=10, tolerance=-1.0, rounds=1, gap=1e-9).fit(clicks, [])
    assert max(free.gaps) > 1e-3


def random_pair(random, topics=3, m=2, n=4):
    return (
        random.dirichlet(np.ones(topics)),
        random.dirichlet(np.ones(9), topics).T[:m],
        random.dirichlet(np.ones(9), topics).T[:n],
    )


def side(*words, padding=0):
    made = np.array([np.vstack([each, np.ones((padding, each.shape[1]))]) for each in words])
    counts = np.array([[1.0] * len(each) + [0.0] * padding for each in words])
    return Side(made, counts, np.zeros(counts.shape, int))


def test_posteriors_equal_those_of_direct_minimisation():
    random = np.random.default_rng(0)
    for _ in range(5):
        mixture, query, title = random_pair(random)
        found = couple(
            mixture[None], side(query, padding=1), side(title, padding=2), np.zeros((1, 3)),
            1e-10, 10_000,
        )  # fmt: skip
        r_query, r_title, divergence = coupled_posterior(mixture, query, title)
        for posterior, made, expected in (
            (found.query, query, r_query),
            (found.title, title, r_title),
        ):
            r = made * posterior.shares[0] / posterior.likely[0, : len(made), None]
            assert r == approx(expected, abs=1e-5)
        likelihood = np.log(query @ mixture).sum() + np.log(title @ mixture).sum()
        assert found.objective[0] == approx(likelihood - divergence, abs=1e-7)


def test_steps_equal_those_with_every_posterior_written_out(monkeypatch):
    monkeypatch.setattr("dssm_tf.baselines.bltm._PAIRS", 2)  # more than one block
    random = np.random.default_rng(3)
    queries = random.integers(0, 3, (5, 4)).astype(float)
    titles = random.integers(0, 2, (5, 4)).astype(float)
    queries[:, 0] += 1  # no row is empty
    titles[:, 3] += 1
    clicks = np.array([1.0, 2.0, 5.0, 1.0, 3.0])
    words = random.dirichlet(np.ones(4), (2, 3)).transpose(0, 2, 1)
    sides = [
        Language(sparse.csr_matrix(counts), np.zeros((3, 1), int)) for counts in (queries, titles)
    ]
    for side, start in zip(sides, words, strict=True):
        side.words = start
    em = BilingualEM(*sides, clicks)
    theirs = (em.mixtures, *words)
    for _ in range(3):
        objective, gap = em.em_step(0.3, 0.2, 1e-10, 10_000)
        assert gap <= 1e-10
        *theirs, expected = bltm_step(queries, titles, clicks, *theirs, 0.3, 0.2)
        assert objective == approx(expected, abs=1e-4)
        assert em.mixtures == approx(theirs[0], abs=1e-4)
        assert em.query.words == approx(theirs[1], abs=1e-4)
        assert em.title.words == approx(theirs[2], abs=1e-4)


def test_a_word_a_side_by_hand():
    # Query word: p(z|w) ~ (.8, .2); title word: (.2, .8). Equal fractions nearest to both are
    # the normalised geometric mean, (1/2, 1/2); each side's KL is .5 log(.5/.8) + .5 log(.5/.2).
    mixture = np.array([[0.5, 0.5]])
    query, title = side(np.array([[0.8, 0.2]])), side(np.array([[0.2, 0.8]]))
    found = couple(mixture, query, title, np.zeros((1, 2)), 1e-12, 1000)
    assert found.query.fractions[0] == approx([0.5, 0.5])
    assert found.title.fractions[0] == approx([0.5, 0.5])
    # p(w) = .5 * .8 + .5 * .2 = .5 on both sides.
    cost = 2 * (0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2))
    assert found.objective[0] == approx(2 * np.log(0.5) - cost)


def test_pairs_that_are_done_early_are_the_same_as_alone():
    random = np.random.default_rng(2)
    pairs = [random_pair(random) for _ in range(8)]
    mixtures = np.array([mixture for mixture, _, _ in pairs])
    queries, titles = side(*(query for _, query, _ in pairs)), side(*(t for _, _, t in pairs))
    together = couple(mixtures, queries, titles, np.zeros((8, 3)), 1e-6, 1000)
    assert np.abs(together.query.fractions - together.title.fractions).max() <= 1e-6
    for row, (mixture, query, title) in enumerate(pairs):
        alone = couple(mixture[None], side(query), side(title), np.zeros((1, 3)), 1e-6, 1000)
        assert together.multipliers[row] == approx(alone.multipliers[0], rel=1e-9)
