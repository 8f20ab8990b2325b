"""Topics of cells, words in context, neighbours and the map, on towers set by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.analysis.survey import contexts, neighbours, plane, topics
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.rnn import RNN

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS for n in letter_ngrams(word)))


def one_cell_a_word(made):
    """A tower whose first matrix gives each word a unit of its own."""
    keras.utils.set_random_seed(0)
    made.build()
    kernel = np.zeros(made.hashing.kernel.shape)
    for unit, word in enumerate(WORDS):
        kernel[list(VOCABULARY.ngram_ids(word)), unit] = 1.0
    made.hashing.kernel.assign(kernel)
    return made


def test_a_cell_s_topic_is_the_word_that_moves_it():
    tower = one_cell_a_word(RNN(VOCABULARY.size, 3))
    tower.recurrence.cell.recurrent_kernel.assign(0.9 * np.eye(3))  # each cell remembers
    found = topics(tower, VOCABULARY, ["aa bb", "bb aa", "cc", "", "cc bb"], active=2)
    words = {topic.cell: topic.words for topic in found}
    assert words[0][0] == ("aa", 2)
    assert words[1][0] == ("bb", 3)
    assert words[2][0] == ("cc", 2)
    assert [topic.texts for topic in found] == sorted((t.texts for t in found), reverse=True)


def test_a_word_is_compared_with_itself_in_other_company():
    tower = CLSM(VOCABULARY.size, 3, 3, (2,))
    keras.utils.set_random_seed(1)
    tower.build()
    (found,) = contexts(tower, VOCABULARY, ["aa bb", "cc bb", "bb cc", "aa bb", "bb"], ["bb"])
    assert found.word == "bb"
    texts = {" ".join(words) for words, _ in found.others} | {" ".join(found.text)}
    assert texts == {"aa bb", "cc bb", "bb cc"}  # each once, and not the word alone
    cosines = [cosine for _, cosine in found.others]
    assert cosines == sorted(cosines, reverse=True)
    assert all(-1 <= cosine < 1 for cosine in cosines)


def test_a_bag_of_words_sees_no_company():
    tower = one_cell_a_word(DSSM(VOCABULARY.size, (3,)))
    assert contexts(tower, VOCABULARY, ["aa bb", "cc bb"], ["bb"]) == []


def test_the_nearest_word_shares_most_of_the_first_matrix():
    tower = one_cell_a_word(DSSM(VOCABULARY.size, (3,)))
    found = neighbours(tower, VOCABULARY, ["aa", "zz"], ["aa", "aabb", "cc"])
    assert list(found) == ["aa"]  # of zz nothing is known
    assert [word for word, _ in found["aa"]] == ["aabb", "cc"]
    # aabb has #aa and bb#, and no other known trigram: one of either word.
    assert found["aa"][0][1] == pytest.approx(1 / np.sqrt(2))
    assert found["aa"][1][1] == 0


def test_the_plane_keeps_the_directions_of_most_variance():
    points = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0.1], [0, 0, -0.1]])
    found, kept = plane(points)
    assert np.abs(found) == pytest.approx(np.abs(points[:, :2]), abs=1e-9)
    assert kept == pytest.approx(20 / 20.02)
    assert plane(np.ones((4, 5)))[0] == pytest.approx(np.zeros((4, 2)))
