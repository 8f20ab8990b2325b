"""A first matrix scaled by IDF: its initial cosines, and the weights that do not change."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pytest import approx

from dssm_tf.config import parse_config
from dssm_tf.data.frequencies import count_titles_of_ngrams
from dssm_tf.data.preprocessed import INT_LISTS
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.warm_start import idf_scaled_weights, smoothed_idf
from tests.reference.trigram_tfidf import cosines

TEXTS = ["the red fox", "the green owl", "the black bear", "the old fox and the owl", "a theme"]
NGRAMS = dict.fromkeys(
    ngram for text in TEXTS for word in text.split() for ngram in letter_ngrams(word)
)
WIDTH = 20_000
# Towers that are nearly linear at the start, so their vectors are sums over words.
ADDITIVE_TOWERS = {
    "dssm": {"name": "dssm", "widths": [WIDTH]},
    "rnn": {"name": "rnn", "hidden": 2000, "recurrent_initializer": "identity"},
    "lstm": {"name": "lstm", "cells": 1000, "recurrent_initializer": "zeros", "forget_bias": 5},
}


def title_counts(titles: list[str], vocabulary: Vocabulary) -> np.ndarray:
    """The number of titles with each id of the vocabulary."""
    words = list(dict.fromkeys(word for title in titles for word in vocabulary.words(title)))
    rows = [[words.index(word) for word in vocabulary.words(title)] for title in titles]
    ngrams = pa.array(map(vocabulary.look_up, words), INT_LISTS)
    return count_titles_of_ngrams(pa.array(rows, INT_LISTS), ngrams, 1 + vocabulary.size)


def test_rows_are_scaled_by_idf_over_the_root_of_its_mean_square():
    vocabulary, titles = Vocabulary(["#ca", "at#"], FOLDED), ["cat at", "cart"]
    # Two titles: "#ca" is in both, "at#" is in one, twice.
    common, rare = 1 + np.log(3 / 3), 1 + np.log(3 / 2)
    counts = title_counts(titles, vocabulary)
    assert smoothed_idf(counts, 2)[1:] == approx([common, rare])
    tower = {"name": "dssm", "widths": [4]}
    model = build_model(parse_config({"tower": tower, "shared_towers": True}), vocabulary.size)
    before = model.query_tower.hashing.kernel.numpy().copy()
    assign_all(model.weights, idf_scaled_weights(model, counts, 2))
    after = model.query_tower.hashing.kernel.numpy()
    expected = np.array([common, rare]) / np.sqrt((common**2 + rare**2) / 2)
    assert after[1:] == approx(before[1:] * expected[:, None], rel=1e-5)


def test_rows_of_text_vectors_are_scaled_too():
    config = {
        "tower": {"name": "words", "units": 3},
        "score": {"name": "maxsim", "text_cosine": 0.2, "text_units": 5},
        "shared_towers": True,
        "whole_words": True,
    }
    model = build_model(parse_config(config), 2)
    kernel = model.score.text_hashing.kernel
    before = kernel.numpy().copy()
    factors = smoothed_idf(np.array([0, 2, 1]), 2)[1:]
    assign_all(model.weights, idf_scaled_weights(model, np.array([0, 2, 1]), 2))
    scale = factors / np.sqrt((factors**2).mean())
    assert kernel.numpy()[1:] == approx(before[1:] * scale[:, None], rel=1e-5)


@pytest.mark.parametrize("name", ADDITIVE_TOWERS)
def test_an_untrained_model_that_adds_up_its_words_has_the_cosines_of_tfidf(name):
    vocabulary = Vocabulary(NGRAMS, FOLDED)
    config = parse_config({"tower": ADDITIVE_TOWERS[name], "shared_towers": True})
    model = build_model(config, vocabulary.size)
    random_weights = [weight.numpy().copy() for weight in model.weights]
    weights = idf_scaled_weights(model, title_counts(TEXTS, vocabulary), len(TEXTS))
    assign_all(model.weights, weights)
    vectors = Encoder(model, vocabulary)("query", TEXTS)
    # Cosines of random vectors of length n deviate by about 1 / sqrt(n); tanh is nearly linear.
    expected = cosines(TEXTS, TEXTS, TEXTS)
    assert vectors @ vectors.T == approx(expected, abs=6 / np.sqrt(vectors.shape[1]))
    for weight, before, after in zip(model.weights, random_weights, weights, strict=True):
        if weight is model.query_tower.hashing.kernel:
            assert np.linalg.norm(after[1:]) == approx(np.linalg.norm(before[1:]), rel=0.02)
        else:
            assert (before == after).all()
