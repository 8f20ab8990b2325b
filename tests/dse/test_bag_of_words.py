"""Bags of words: chosen words, weights, errors."""

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.bag_of_words import BagOfWords

TEXTS = ["The red hat", "the red red shoe", "the blue shoe", "the"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # the 4; red 2 (its repeat counts once), shoe 2; blue 1, hat 1
        ({}, "the red shoe blue hat"),
        ({"size": 2}, "the red"),
        ({"min_texts": 2, "max_texts": 3}, "red shoe"),
        ({"min_texts": 2, "max_texts": 2}, "red shoe"),  # each in two
    ],
)
def test_words_are_ordered_by_their_number_of_texts_then_alphabetically(options, words):
    assert BagOfWords(**{"size": None} | options).fit(TEXTS).words == tuple(words.split())


def test_binary_weights_are_1_for_each_word_of_the_text():
    bag = BagOfWords(None, weighting="binary", normalization="none").fit(TEXTS)
    bags = bag.transform(["red RED hat tie", ""])
    assert sparse.issparse(bags)
    assert bags.dtype == np.float32
    assert bags.toarray().tolist() == [[0, 1, 0, 0, 1], [0, 0, 0, 0, 0]]


def test_tf_idf_is_the_count_times_the_log_of_the_inverse_fraction_of_texts():
    bags = BagOfWords(None, normalization="none").fit(TEXTS).transform(["the red red hat"])
    # the: log(4/4); red: 2 log(4/2); hat: log(4/1)
    expected = [0, 2 * np.log(2), 0, 0, np.log(4)]
    np.testing.assert_allclose(bags.toarray()[0], expected, rtol=1e-6)


def test_normalized_vectors_have_length_or_maximum_1_and_empty_texts_are_zero():
    texts = [
        "red red hat",
        "shoe",
        "nothing known",
        "the the",
    ]  # the IDF of "the" is 0: it is in every text
    by_length = BagOfWords(None).fit(TEXTS).transform(texts).toarray()
    np.testing.assert_allclose(np.linalg.norm(by_length, axis=1), [1, 1, 0, 0], atol=1e-6)
    # 2 log 2 and log 4 are equal: both become 1 / sqrt 2, or 1.
    np.testing.assert_allclose(by_length[0, [1, 4]], np.sqrt(0.5), rtol=1e-6)
    by_largest = BagOfWords(None, normalization="largest").fit(TEXTS).transform(texts).toarray()
    assert by_largest.max(axis=1).tolist() == [1, 1, 0, 0]


def test_texts_without_a_word_of_an_allowed_document_frequency_are_rejected():
    with pytest.raises(UserError, match="none of the 0 words of 2 texts"):
        BagOfWords().fit(["", "?!"])
    with pytest.raises(UserError, match="is in 5 to 4 of them"):
        BagOfWords(min_texts=5).fit(TEXTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size"),
        ({"min_texts": 0}, "min_texts"),
        ({"weighting": "bm25"}, "'binary' or 'tfidf'"),
        ({"normalization": "sum"}, "'length', 'largest' or 'none'"),
    ],
)
def test_arguments_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        BagOfWords(**options)
