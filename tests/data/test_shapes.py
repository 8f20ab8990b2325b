"""Parts of like length: what they cost, and that fewer cells are padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.data.shapes import MAX_PARTS, Part, cheapest_bounds, plan_shapes


def text_batch(lengths, word_lengths):
    """Matrices with as many entries a row as asked for."""

    def matrix(sizes):
        return (np.arange(max(sizes)) < np.array(sizes)[:, None]).astype(np.int32)

    return {"tokens": matrix(lengths), "word_ngrams": matrix(word_lengths)}


def work(counts, bounds, cost):
    """Width times (rows + cost) of each part, row by row."""
    total = cost * sum(bounds)
    for length, rows in enumerate(counts):
        total += rows * min(bound for bound in bounds if bound >= length)
    return total


def test_rows_that_are_much_longer_than_the_others_get_a_part_of_their_own():
    # One part: 30 * (1001 + 10). Two: 3 * (1000 + 10) + 30 * (1 + 10) = 3360.
    assert cheapest_bounds(np.array([3] * 1000 + [30]), 1, cost=10) == (3, 30)


def test_parts_that_cost_more_than_their_padding_are_not_made():
    # One part: 4 * (20 + 60) = 320. Two: 3 * (10 + 60) + 4 * (10 + 60) = 490.
    assert cheapest_bounds(np.array([3, 4] * 10), 1, cost=60) == (4,)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=9), st.integers(0, 80))
def test_no_other_parts_take_less_work(counts, cost):
    from itertools import combinations

    counts = np.array([0, *counts, 1])  # every row has a column
    longest = len(counts) - 1
    found = cheapest_bounds(np.repeat(np.arange(len(counts)), counts), 1, cost)
    least = min(
        work(counts, (*inner, longest), cost)
        for parts in range(MAX_PARTS)
        for inner in combinations(range(1, longest), parts)
    )
    assert work(counts, found, cost) == least


@pytest.fixture
def inputs():
    """Two batches: 2 and 3 queries of one word, 200 short titles and up to 2 of 40 words."""
    queries = [text_batch([1] * n, [0, 5]) for n in (2, 3)]
    titles = [text_batch([2] * 200 + [40] * n, [0, *[4] * 100]) for n in (1, 2)]
    most = np.array([[201]])
    return [
        {"query": q, "titles": t, "candidates": most} for q, t in zip(queries, titles, strict=True)
    ]


def test_shapes_are_planned_for_each_side(inputs):
    shapes = plan_shapes(inputs, fixed=False)
    assert shapes.of("query").tokens == (Part(1),)
    assert shapes.of("titles").tokens == (Part(2), Part(40))
    assert shapes.of("titles").word_ngrams == (Part(4),)
    assert shapes.distinct_titles == 0


def test_one_text_batch_of_both_sides_has_one_shape():
    joint = [
        {
            "texts": text_batch([1] * 3 + [2] * 200 + [40], [0, *[4] * 100]),
            "candidates": np.full((3, 5), 200, np.int32),
        }
    ]
    assert plan_shapes(joint, fixed=False).of("texts").tokens == (Part(2), Part(40))
    # 201 * 1.1 + 1 = 222 -> 224.
    assert plan_shapes(joint, fixed=True).distinct_titles == 224


def test_fixed_shapes_leave_room_at_round_numbers(inputs):
    shapes = plan_shapes(inputs, fixed=True)
    # 200 * 1.1 + 1 = 221 -> 224; 2 * 1.1 + 1 = 3 -> 8; 202 * 1.1 + 1 = 223 -> 224.
    assert shapes.of("titles").tokens == (Part(2, 224), Part(40, 8))
    assert shapes.distinct_titles == 224
