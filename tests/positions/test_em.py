"""The position-based model by EM."""

from __future__ import annotations

import numpy as np
from pytest import approx

from dssm_tf.positions import em
from dssm_tf.positions.shown import Shown, word_group
from dssm_tf.positions.simulation import Users
from tests.positions.judged import shown as simulated


def test_clicks_that_follow_the_model_give_it_back():
    truth, relevance = np.array([1, 0.5, 0.25]), np.array([0.8, 0.4, 0.6, 0.2])
    cells = [
        (0, pair, 0, at + 1, 1_000_000, round(1_000_000 * truth[at] * relevance[pair]))
        for pair in range(4)
        for at in range(3)
    ]
    found = em.fit(Shown.of(cells), 3, tolerance=1e-7, steps=5000)
    assert found.examination / found.examination[0] == approx(truth, abs=1e-3)
    assert found.relevance * found.examination[0] == approx(relevance, abs=1e-3)


def test_one_step_is_that_of_the_paper():
    shown = Shown.of([(0, 0, 0, 1, 10, 4), (0, 0, 0, 2, 5, 1)])
    start = em.PositionModel(np.array([0.9, 0.5]), np.array([0.4]), [])
    found = em.fit(shown, 2, start=start, steps=1, strength=0)
    # P(examined | no click) = e (1 - r) / (1 - e r): 0.9 * 0.6 / 0.64 and 0.5 * 0.6 / 0.8.
    assert found.examination == approx([(4 + 6 * 0.84375) / 10, (1 + 4 * 0.375) / 5])
    # P(relevant | no click) = r (1 - e) / (1 - e r): 0.4 * 0.1 / 0.64 and 0.4 * 0.5 / 0.8.
    assert found.relevance == approx([(5 + 6 * 0.0625 + 4 * 0.25) / 15])


def test_the_likelihood_never_falls():
    shown = simulated(Users(eta=1), sessions=3000).first(6)
    moved = shown.moved
    alone = {name: value[moved] for name, value in vars(shown).items()}
    steps = em.fit(Shown(**alone).first(6), 6, strength=0, steps=60).log_likelihood
    assert len(steps) > 20
    assert np.diff(steps).min() > -1e-9 * abs(steps[0])


def test_a_title_that_never_moved_has_the_relevance_of_its_group():
    cells = [(0, 0, 0, 1, 100, 60), (0, 1, 0, 2, 100, 10), (0, 2, 1, 1, 100, 20)]
    cells += [(0, 3, 1, 2, 100, 2)]
    found = em.fit(Shown.of(cells), 2)
    assert found.relevance[0] == found.relevance[1] > found.relevance[2] == found.relevance[3]
    # Both groups lose clicks alike, to (10 + 2) / (60 + 20) about.
    assert found.examination[1] / found.examination[0] == approx(0.15, abs=0.03)


def test_counting_a_query_twice_is_having_it_twice():
    # A title that moved, and two that never did, whose relevance is their group's.
    places = [(0, 1), (0, 2), (1, 1), (2, 2)]
    cells = [(q, pair, 0, at, 50, 9 * q + 5 * pair + 3 * at) for q in (0, 1) for pair, at in places]
    twice = [*cells, *((2, *cell[1:]) for cell in cells if cell[0] == 1)]
    one, until = Shown.of(cells), {"steps": 5000, "tolerance": 1e-9}
    weighted = em.fit(one, 2, times=np.array([1.0, 2.0])[one.query], **until)
    plain = em.fit(Shown.of(twice), 2, **until)
    ratio = weighted.examination[1] / weighted.examination[0]
    assert ratio == approx(plain.examination[1] / plain.examination[0], rel=1e-3)


def test_groups_are_fifths_of_the_shared_words():
    assert word_group("a b c d", "x y") == 0
    assert word_group("a b c d", "x d y") == 1
    assert word_group("a b c d", "d c b a e") == 4
