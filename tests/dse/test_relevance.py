"""Relevance from classes, links and clicks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.relevance import ClickData, linked, same_class, split_links

LABELS = ["a", "b", "a", "b", "a"]


def test_pages_of_one_class_answer_each_other_and_not_themselves():
    expected = [[x == y and i != j for j, y in enumerate(LABELS)] for i, x in enumerate(LABELS)]
    assert same_class(LABELS).toarray().tolist() == expected


def test_links_count_both_ways_once_and_never_to_the_page_itself():
    found = linked(["x", "y", "z"], [("x", "y"), ("y", "x"), ("z", "z")])
    assert found.toarray().tolist() == [[False, True, False], [True, False, False], [False] * 3]


def test_a_link_to_an_unknown_page_is_named():
    with pytest.raises(UserError, match="link 2, 'y' to 'w', names a page that is not among the 2"):
        linked(["x", "y"], [("x", "y"), ("y", "w")])
    with pytest.raises(UserError, match="page 'x' comes twice"):
        linked(["x", "x"], [])
    with pytest.raises(UserError, match="no link between two pages"):
        linked(["x", "y"], [("x", "x")])


def test_a_pair_of_pages_is_in_one_part_of_a_split_both_ways_round():
    relevant = same_class(["a"] * 6 + ["b"] * 5)
    train, test = split_links(relevant, 0.4, seed=1)
    # 15 + 10 pairs, of which 40 % are 10.
    assert (train.nnz, test.nnz) == (20, 30)
    assert not train.multiply(test).nnz
    assert ((train + test) != relevant).nnz == 0
    assert (train != train.T).nnz == 0
    smaller, _ = split_links(relevant, 0.2, seed=1)
    assert smaller.multiply(train).nnz == smaller.nnz == 10


def test_a_split_that_leaves_nothing_on_one_side_is_refused():
    with pytest.raises(UserError, match="leaves no link"):
        split_links(linked(["x", "y"], [("x", "y")]), 0.7)
    with pytest.raises(ValueError, match="0 < share < 1"):
        split_links(same_class(LABELS), 1.0)


def test_clicks_of_one_text_are_added_and_empty_ones_dropped():
    data = ClickData.of(
        [("Red Wolf", "x y", 1.0), ("red wolf!", "X y", 2.0), ("?", "x y", 9.0), ("red", "", 9.0)],
        ["x y", "z"], "dse",
    )  # fmt: skip
    assert (data.queries, data.titles) == (["red wolf"], ["x y", "z"])
    assert data.clicks.toarray().tolist() == [[3.0, 0.0]]


def test_titles_get_their_share_of_the_draws_and_held_out_clicks_none():
    clicks = [("a", "x", 3.0), ("b", "y", 1.0), ("c", "z", 1.0)]
    data = ClickData.of(clicks, ["x", "y", "z"], "dse")
    links, known, weights = data.training(np.array([0, 1]), 0.25)
    # Rows a, b, c and then the titles x, y, z as queries; c is held out.
    assert links.toarray().astype(int).tolist() == [
        [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1],
    ]  # fmt: skip
    np.testing.assert_allclose(weights, [0.75 * 3 / 4, 0.75 / 4, *[0.25 / 3] * 3])
    assert known[2].toarray().astype(int).tolist() == [[0, 0, 1]]


def test_held_out_queries_are_a_fixed_share():
    data = ClickData(list("abcdefghij"), ["x"], sparse.csr_matrix((10, 1)))
    chosen, others = data.held_out(0.3, 1)
    assert len(chosen) == 3
    assert sorted([*chosen, *others]) == list(range(10))
    assert (data.held_out(0.3, 1)[0] == chosen).all()
