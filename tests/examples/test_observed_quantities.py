"""What the papers say of trained models, in numbers: each counted by hand, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from examples.studies.observed_quantities import (
    contrast,
    first_keyword,
    influence,
    kept,
    over_seeds,
    purity,
    signed_cells,
    turned,
    written,
)
from tests.reference.peephole_lstm import LSTMParameters, steps


def test_the_interval_over_seeds_is_student_s():
    # Three seeds: s = 1, t(.975, 2) = 4.302653.
    mean, half = over_seeds([1.0, 2.0, 3.0])
    assert (mean, half) == approx((2.0, 4.302653 / np.sqrt(3)))


def test_stop_words_are_compared_with_the_other_words_of_their_own_text():
    # The second text is high as a whole and has no stop word, so it cannot raise the others.
    values = [np.array([1.0, 4.0, 2.0]), np.array([9.0, 9.0]), np.array([3.0, 3.0])]
    marked = [np.array([True, False, True]), np.array([False, False]), np.array([True, False])]
    found = contrast(values, marked)
    assert (found.marked, found.others) == approx(((1.5 + 3) / 2, (4 + 3) / 2))
    assert found.lower == approx((1 + 0.5) / 2)  # both stop words below 4; a tie counts half
    assert found.texts == 2


@pytest.mark.parametrize("forget_gate", [True, False])
def test_what_is_written_is_the_paper_s_product_in_every_cell(forget_gate):
    parameters = LSTMParameters.random(trigrams=4, cells=3, seed=0)
    texts = list(np.random.default_rng(1).normal(size=(5, 4)))
    found = steps(parameters, texts, forget_gate=forget_gate)
    y = np.stack([np.zeros(3), *(step["y"] for step in found)])
    expected = [
        step["i"] * np.tanh(parameters.w4 @ text + parameters.rec4 @ before + parameters.b4)
        for step, text, before in zip(found, texts, y[:-1], strict=True)
    ]
    activations = {name: np.stack([step[name] for step in found]) for name in found[0]}
    assert written(activations) == approx(np.array(expected))


def test_the_first_keyword_is_counted_against_a_word_drawn_from_the_same_query():
    keywords = [
        np.array([False, True, True]),
        np.array([True, False, True]),
        np.array([True, False]),
    ]
    judged = [np.array([False, True, True]), np.array([False, True, True]), np.array([False, True])]
    shared = [np.array([True, True, False]), np.array([True, True, False]), np.array([True, True])]
    found = first_keyword(keywords, judged, shared)
    # Of the third only the word read first is one, which the rule does not judge.
    assert found.found == approx(2 / 3)
    assert found.hits == approx(1 / 2)  # word 1 of the first, word 2 of the second
    assert found.chance == approx(1 / 2)


def test_a_cell_above_zero_and_the_same_below_are_two():
    vectors = np.array([[0.9, -0.8, 0.1], [-0.9, 0.2, 0.3]])
    assert signed_cells(vectors, 2).tolist() == [[0, 3 + 1], [3 + 0, 2]]


def test_purity_is_the_share_of_each_cell_s_main_topic():
    cells = np.array([[0, 1], [0, 1], [0, 2], [2, 3]])
    labels = np.array([0, 0, 1, 1])
    # Cell 0 has topics 0 0 1, cell 1 has 0 0, cell 2 has 1 1, cell 3 has 1: 2 + 2 + 2 + 1 of 8.
    assert purity(cells, labels) == approx(7 / 8)


def test_turned_vectors_keep_their_cosines_and_lose_their_cells():
    vectors = np.eye(6)
    found = turned(vectors, seed=3)
    assert found @ found.T == approx(np.eye(6), abs=1e-12)
    assert np.abs(found).max() < 1


def test_influence_is_the_share_of_the_change_that_a_place_makes():
    # Without the first word the cosines are .8 and 1, without the second .4 and 0: changes of
    # .2 and 0, and of .6 and 1, in the mean .1 and .8.
    vectors = np.array(
        [[[1, 0], [0.8, 0.6], [0.4, np.sqrt(0.84)]], [[0, 1], [0, 1], [1, 0]]], np.float64
    )
    assert influence(vectors) == approx([1 / 9, 8 / 9])


def test_forget_gates_leave_the_product_of_the_first_word_s_share():
    forget = np.array([[0.1, 0.1], [0.5, 1.0], [0.5, 0.8]])  # the first one forgets nothing yet
    c = np.array([[3.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    assert kept(forget, c) == approx((3 * 0.25 + 1 * 0.8) / 4)
    assert kept(np.ones((1, 2)), c[:1]) == 1
