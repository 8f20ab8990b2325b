"""Readings of a tower."""

from __future__ import annotations

import keras
import pytest

from dssm_tf.analysis.survey import readings
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.bilstm import BidirectionalLSTMRNN

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS for n in letter_ngrams(word)), FOLDED)


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
