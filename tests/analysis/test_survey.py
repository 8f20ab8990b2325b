"""Readings, words in context and neighbours, on towers set by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.analysis.survey import contexts, neighbours, readings
from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.bilstm import BidirectionalLSTMRNN
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS for n in letter_ngrams(word)), FOLDED)


def one_cell_a_word(made):
    """A tower whose first matrix gives each word a unit of its own."""
    keras.utils.set_random_seed(0)
    made.build()
    kernel = np.zeros(made.hashing.kernel.shape)
    for unit, word in enumerate(WORDS):
        kernel[list(VOCABULARY.ngram_ids(word)), unit] = 1.0
    made.hashing.kernel.assign(kernel)
    return made


def test_a_text_is_read_as_each_direction_reads_it_alone():
    tower = BidirectionalLSTMRNN(VOCABULARY.size, 4)
    keras.utils.set_random_seed(0)
    tower.build()
    texts = ["aa bb cc", "", "cc"]
    found = list(readings(tower, VOCABULARY, texts))
    assert [one[0].words for one in found] == [["aa", "bb", "cc"], ["cc"]]
    for text, of_text in zip(["aa bb cc", "cc"], found, strict=True):
        (alone,) = readings(tower, VOCABULARY, [text])
        for one, other in zip(of_text, alone, strict=True):
            assert one.backwards == other.backwards
            for gate in "ifocy":
                assert one.activations[gate] == pytest.approx(other.activations[gate], abs=1e-6)


def clsm():
    tower = CLSM(VOCABULARY.size, 3, 3, (2,))
    keras.utils.set_random_seed(1)
    tower.build()
    return tower


def test_a_word_of_one_s_own_texts_is_compared_at_the_convolution():
    """In the layout of S14, table 2: from the first text to each of the others."""
    tower = clsm()
    found = contexts(tower, VOCABULARY, "BB", ["aa bb", "cc bb", "bb cc", "aa bb"])
    assert (found.word, found.text) == ("bb", ["aa", "bb"])
    # Equation 2: h = tanh(W_c l), l the rows of the window's words, one block of rows a place.
    kernel = keras.ops.convert_to_numpy(tower.hashing.kernel).astype(np.float64)

    def feature(*window):
        blocks = [
            kernel[list(VOCABULARY.ngram_ids(word))].sum(axis=0).reshape(3, 3)[place]
            for place, word in enumerate(window)
            if word
        ]
        return np.tanh(np.sum(blocks, axis=0))

    h = {"aa bb": feature("aa", "bb", ""), "cc bb": feature("cc", "bb", ""),
         "bb cc": feature("", "bb", "cc")}  # fmt: skip
    first = h["aa bb"] / np.linalg.norm(h["aa bb"])
    expected = {text: float(first @ one / np.linalg.norm(one)) for text, one in h.items()}
    cosines = {" ".join(words): cosine for words, cosine in found.others}
    assert cosines == pytest.approx(expected)
    assert list(cosines.values()) == sorted(cosines.values(), reverse=True)


@pytest.mark.parametrize(
    ("tower", "said"), [("clsm", "'bb' is not among the words"), ("dssm", "DSSM has no vector")]
)
def test_a_text_without_the_word_and_a_tower_without_contexts_are_refused(tower, said):
    made = clsm() if tower == "clsm" else one_cell_a_word(DSSM(VOCABULARY.size, (3,)))
    with pytest.raises(UserError, match=said):
        contexts(made, VOCABULARY, "bb", ["aa bb", "aa cc"])


def test_the_nearest_word_shares_most_of_the_first_matrix():
    tower = one_cell_a_word(DSSM(VOCABULARY.size, (3,)))
    found = neighbours(tower, VOCABULARY, "aa", ["aa", "aabb", "cc"])
    assert [word for word, _ in found] == ["aabb", "cc"]
    # aabb has #aa and bb#, and no other known trigram: one of either word.
    assert [cosine for _, cosine in found] == pytest.approx([1 / np.sqrt(2), 0])
    assert neighbours(tower, VOCABULARY, "zz", ["aa"]) == []  # of zz nothing is known
