"""Relevance of titles from clicks."""

import numpy as np
from scipy import sparse

from dssm_tf.dse.click_matrix import ClickMatrix


def test_clicks_of_equal_texts_are_summed_and_empty_texts_dropped():
    data = ClickMatrix.from_clicks(
        [("Red Wolf", "x y", 1.0), ("red wolf!", "X y", 2.0), ("?", "x y", 9.0), ("red", "", 9.0)],
        ["x y", "z"], "dse",
    )  # fmt: skip
    assert (data.queries, data.titles) == (["red wolf"], ["x y", "z"])
    assert data.clicks.toarray().tolist() == [[3.0, 0.0]]


def test_link_weights_mix_clicks_and_titles_and_exclude_validation_queries():
    clicks = [("a", "x", 3.0), ("b", "y", 1.0), ("c", "z", 1.0)]
    data = ClickMatrix.from_clicks(clicks, ["x", "y", "z"], "dse")
    links, known, weights = data.training(np.array([0, 1]), 0.25)
    # Rows a, b, c and then the titles x, y, z as queries; c is held out.
    assert links.toarray().astype(int).tolist() == [
        [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1],
    ]  # fmt: skip
    np.testing.assert_allclose(weights, [0.75 * 3 / 4, 0.75 / 4, *[0.25 / 3] * 3])
    assert known[2].toarray().astype(int).tolist() == [[0, 0, 1]]


def test_a_fixed_fraction_of_queries_is_for_validation():
    data = ClickMatrix(list("abcdefghij"), ["x"], sparse.csr_matrix((10, 1)))
    validation, training = data.split_queries(0.3, 1)
    assert len(validation) == 3
    assert sorted([*validation, *training]) == list(range(10))
    assert (data.split_queries(0.3, 1)[0] == validation).all()
