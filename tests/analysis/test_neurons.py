"""Winners and links of max pooling, computed by hand."""

import numpy as np
import pytest

from dssm_tf.analysis.neurons import Link, links, winners

QUERY = np.array([[0.9, -0.5, 0.1], [0.2, -0.4, 0.3]])
TITLE = np.array([[0.1, 0.9, 0.2], [0.8, 0.9, 0.5]])


def test_the_word_with_the_highest_feature_wins_a_neuron():
    assert winners(QUERY, 2) == [(0, 0), (2, 1)]
    assert winners(TITLE, 3) == [(1, 0), (0, 1), (2, 1)]


def test_a_link_is_a_neuron_that_is_high_for_both_texts():
    # .9 x .8 and .3 x .5; neuron 1 is negative for the query, however high for the title.
    assert links(QUERY, TITLE) == [
        Link(0, 0, 1, pytest.approx(0.72)),
        Link(2, 1, 1, pytest.approx(0.15)),
    ]
