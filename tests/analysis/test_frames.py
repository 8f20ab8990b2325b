"""Tables of explanations, beside the arrays that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.analysis.cells import Reading
from dssm_tf.analysis.explanation import SHAPLEY, Explanation, Side
from dssm_tf.analysis.frames import activations_table, trigrams_table, words_table


def side(name, words, **options):
    adds = np.arange(len(words)) / 10
    return Side(name, words, None, adds, SHAPLEY, 0.0, 0.0, 2 * adds, **options)


def explanation(query, title):
    return Explanation("model", query, title, 0.5, 0.0, np.zeros((2, 1)), [])


Y = np.array([[0.1, 0.2], [0.9, 0.2]])


def test_a_word_is_a_row_with_what_the_arrays_say():
    read = {"readings": [Reading(["red", "fox"], False, {"i": 1 - Y, "y": Y})]}
    one = {"readings": [Reading(["fox"], False, {"i": Y[:1], "y": Y[:1]})]}
    found = words_table(explanation(side("query", ["red", "fox"], **read),
                                    side("title", ["fox"], **one))).to_pydict()  # fmt: skip
    assert found["side"] == ["query", "query", "title"]
    assert found["word"] == ["red", "fox", "fox"]
    assert found["adds"] == pytest.approx([0, 0.1, 0])
    assert found["lost_without"] == pytest.approx([0, 0.2, 0])
    assert found["moved_forwards"] == [None, 1, None]  # .8 of .9, and nothing of .2
    assert found["keyword"] == [False, True, True]


def test_a_clsm_s_words_have_the_neurons_that_they_win():
    features = np.array([[0.9, -0.2], [0.1, 0.4]])
    found = words_table(explanation(side("query", ["red", "fox"], features=features),
                                    side("title", ["fox"], features=features[:1])))  # fmt: skip
    assert found["neurons_won"].to_pylist() == [1, 1, 2]


def test_trigrams_have_their_word_and_a_model_without_has_an_empty_table():
    query = side("query", ["at"], trigrams=[[("#at", 0.3), ("at#", -0.1)]])
    found = trigrams_table(explanation(query, side("title", ["fox"]))).to_pylist()
    assert found[1] == {"side": "query", "place": 0, "word": "at", "trigram": "at#", "adds": -0.1}
    assert len(found) == 2
    assert trigrams_table(explanation(side("query", ["a"]), side("title", ["b"]))).num_rows == 0


def test_an_activation_stands_at_its_word_and_cell():
    found = activations_table(Reading(["red", "fox"], False, {"i": 1 - Y, "y": Y})).to_pylist()
    assert found[2] == {"place": 1, "word": "fox", "cell": 0, "i": pytest.approx(0.1), "y": 0.9}
