"""What the papers say of trained models, in numbers: each counted by hand, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from examples.studies.observed_quantities import (
    agreement,
    contrast,
    first_keyword,
    influence,
    kept,
    over_seeds,
    purity,
    rotations,
    shuffled_purity,
    signed_cells,
    turned,
    written,
)
from tests.reference.peephole_lstm import LSTMParameters, steps


def test_the_interval_over_seeds_is_student_s():
    # Three seeds: s = 1, t(.975, 2) = 4.302653.
    mean, half = over_seeds([1.0, 2.0, 3.0])
    assert (mean, half) == approx((2.0, 4.302653 / np.sqrt(3)))


def test_one_seed_says_nothing_of_the_spread_and_an_absent_value_is_left_out():
    assert over_seeds([2.0, np.nan]) == (2.0, np.inf)
    assert np.isnan(over_seeds([np.nan])).all()


def test_stop_words_are_compared_with_the_other_words_of_their_own_text():
    # The second text is high as a whole and has no stop word, so it cannot raise the others.
    values = [np.array([1.0, 4.0, 2.0]), np.array([9.0, 9.0]), np.array([3.0, 3.0])]
    marked = [np.array([True, False, True]), np.array([False, False]), np.array([True, False])]
    found = contrast(values, marked)
    assert (found.marked, found.others) == approx(((1.5 + 3) / 2, (4 + 3) / 2))
    assert found.lower == approx((1 + 0.5) / 2)  # both stop words below 4; a tie counts half
    assert found.texts == 2


def test_texts_of_one_kind_of_words_contrast_nothing():
    found = contrast([np.array([1.0, 2.0])], [np.array([True, True])])
    assert found.texts == 0
    assert np.isnan(found[:3]).all()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8))
def test_what_is_lower_on_the_marked_words_is_higher_on_the_others(words):
    values = np.array([value for value, _ in words], float)
    marked = np.array([one for _, one in words])
    there, back = contrast([values], [marked]), contrast([values], [~marked])
    assert there.texts == back.texts
    if there.texts:
        assert there.lower + back.lower == approx(1)
        assert (there.marked, there.others) == approx((back.others, back.marked))


def test_what_a_word_writes_is_its_input_gate_times_its_candidate():
    # Two cells, two words: c(1) = i y_g = [.5, .1]; c(2) = f c(1) + i y_g = [.2 + .3, .1 - .4].
    forget = np.array([[0.7, 0.7], [0.4, 1.0]])
    c = np.array([[0.5, 0.1], [0.5, -0.3]])
    assert written({"c": c, "f": forget}) == approx(np.array([[0.5, 0.1], [0.3, -0.4]]))
    # Without forget gate c(2) = c(1) + i y_g.
    assert written({"c": c}) == approx(np.array([[0.5, 0.1], [0.0, -0.4]]))


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


def test_queries_without_keyword_have_no_share():
    none = [np.array([False, False])]
    found = first_keyword(none, [np.array([False, True])], none)
    assert found.found == 0
    assert np.isnan([found.hits, found.chance]).all()


def test_a_cell_above_zero_and_the_same_below_are_two():
    vectors = np.array([[0.9, -0.8, 0.1], [-0.9, 0.2, 0.3]])
    assert signed_cells(vectors, 2).tolist() == [[0, 3 + 1], [3 + 0, 2]]


def test_purity_is_the_share_of_each_cell_s_main_topic():
    cells = np.array([[0, 1], [0, 1], [0, 2], [2, 3]])
    labels = np.array([0, 0, 1, 1])
    # Cell 0 has topics 0 0 1, cell 1 has 0 0, cell 2 has 1 1, cell 3 has 1: 2 + 2 + 2 + 1 of 8.
    assert purity(cells, labels) == approx(7 / 8)


def test_shuffled_labels_have_the_purity_of_the_largest_topic_where_cells_are_busy():
    labels = (np.arange(4000) % 10 >= 7).astype(int)  # seven tenths are of topic 0
    cells = labels[:, None]
    assert purity(cells, labels) == 1
    # A share of 1,200 texts has a standard deviation of sqrt(.7 * .3 / 1200) = .013.
    assert shuffled_purity(cells, labels) == approx(0.7, abs=0.02)


def test_turned_vectors_keep_their_cosines_and_lose_their_cells():
    vectors = np.eye(6)
    found = turned(vectors, seed=3)
    assert found @ found.T == approx(np.eye(6), abs=1e-12)
    assert np.abs(found).max() < 1


def test_in_the_rotations_of_a_text_each_word_has_each_place_once():
    found = np.array(rotations(["a", "b", "c", "d"]))
    assert all(sorted(place) == ["a", "b", "c", "d"] for place in found.T)
    assert all(sorted(text) == ["a", "b", "c", "d"] for text in found)


def test_influence_is_the_share_of_the_change_that_a_place_makes():
    # Without the first word the cosines are .8 and 1, without the second .4 and 0: changes of
    # .2 and 0, and of .6 and 1, in the mean .1 and .8.
    vectors = np.array(
        [[[1, 0], [0.8, 0.6], [0.4, np.sqrt(0.84)]], [[0, 1], [0, 1], [1, 0]]], np.float64
    )
    assert influence(vectors) == approx([1 / 9, 8 / 9])


def test_a_model_that_sees_no_order_gives_every_place_the_same_influence():
    words = {"a": [3.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}

    def unit(text):
        vector = np.sum([words[word] for word in text], axis=0)
        return vector / np.linalg.norm(vector)

    vectors = [
        [unit(text), *(unit([*text[:i], *text[i + 1 :]]) for i in range(3))]
        for text in rotations(list(words))
    ]
    assert influence(np.array(vectors)) == approx([1 / 3] * 3)


def test_forget_gates_leave_the_product_of_the_first_word_s_share():
    forget = np.array([[0.1, 0.1], [0.5, 1.0], [0.5, 0.8]])  # the first one forgets nothing yet
    c = np.array([[3.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    assert kept(forget, c) == approx((3 * 0.25 + 1 * 0.8) / 4)
    assert kept(np.ones((1, 2)), c[:1]) == 1


def test_rank_agreement_is_kendall_s_and_spearman_s():
    # Of six pairs of places five stand in the same order: (5 - 1) / 6. Ranks differ by 0 0 1 1:
    # 1 - 6 * 2 / (4 * 15).
    found = agreement(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 40.0, 3.0]))
    assert found == approx((4 / 6, 0.8))
    # Kendall's tau-b with a tie on one side: 5 / sqrt(5 * 6).
    assert agreement(np.array([1, 1, 2, 3]), np.array([1, 2, 3, 4])).kendall == approx(
        5 / np.sqrt(30)
    )


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1.0, 1.0]])
def test_too_few_or_equal_values_have_no_agreement(values):
    assert np.isnan(agreement(np.array(values), np.arange(len(values)))).all()
