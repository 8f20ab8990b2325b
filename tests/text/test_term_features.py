"""Terms in TensorFlow ops equal the document frequencies in pure Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.text_features import TextBatch, TextFeatures

TITLES = [
    "red shoe",
    "Red shoe box␟sony",
    "box␟red shoe",
    "東京都 の 靴␟red shoe",
    "東京都 shoe␟sony",
]
WORDS = st.sampled_from(["red", "shoe", "box", "sony", "blue", "東京都", "の", "Shoe!", "␟", ""])


def model(fields: int) -> tuple[Vocabulary, DocumentFrequencies, Callable[[tf.Tensor], TextBatch]]:
    """A vocabulary, the frequencies of the titles, and the function of both, traced once."""
    vocabulary = Vocabulary([], TextRules(False, max_words=6, own_fields=fields))
    frequencies = DocumentFrequencies.from_titles([*map(vocabulary.words, TITLES)])
    features = tf.function(
        TextFeatures(vocabulary, frequencies).__call__,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    return vocabulary, frequencies, features


MODELS = {fields: model(fields) for fields in (1, 2)}


def test_the_pair_of_a_further_field_is_its_own():
    batch = MODELS[2][2](tf.constant(["red shoe", "box␟red shoe"]))
    # Of five titles, two have "red shoe" in field 0, and two in field 1.
    assert batch["pairs"].numpy()[:, 0].tolist() == [0, 1, 2]
    assert len({*batch["pairs"].numpy()[:, 1].tolist()}) == 3
    assert batch["pair_idf"].numpy()[:2] == approx(np.log([5 / 2, 5 / 2]))
    # Row 0 is padding; red, shoe, box, and 1␟red, 1␟shoe are in 2, 3, 2, 2 and 2 titles.
    assert batch["word_idf"].numpy() == approx([0, *np.log(5 / np.array([2, 3, 2, 2, 2]))])


@pytest.mark.parametrize("fields", MODELS)
def test_terms_are_those_of_the_words_of_each_text(fields):
    vocabulary, frequencies, features = MODELS[fields]

    @settings(max_examples=50)
    @given(st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=5))
    def check(texts):
        batch = features(tf.constant(texts))
        words = [vocabulary.words(text) for text in texts]
        distinct = dict.fromkeys(chain.from_iterable(words))
        idf = [0.0, *map(frequencies.word_idf, distinct)]
        assert batch["word_idf"].numpy() == approx(idf, rel=1e-6)
        pairs = [
            (row, frequencies.pair_idf(pair))
            for row, words_of_text in enumerate(words)
            for pair in frequencies.pairs_of(words_of_text)
        ]
        rows = batch["pairs"].numpy()[:-1, 0].tolist()
        received = [*zip(rows, batch["pair_idf"].numpy().tolist(), strict=False)]
        assert np.array(sorted(received)) == approx(np.array(sorted(pairs)), rel=1e-6)

    check()
