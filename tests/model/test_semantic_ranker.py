"""A trained model as a ranker: ties, order, empty texts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.config import parse_config
from dssm_tf.data.format import Title
from dssm_tf.model.build import build_model
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.semantic_ranker import SemanticRanker, encode_distinct
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.rounding import rounding_bound

pytestmark = pytest.mark.numeric

# Rounding of a score: up to 18 trigrams and 24 units, with intermediate values up to 2.
TOLERANCE = rounding_bound(42, 2)
WORDS = ("fox", "owl", "bear", "horse", "whale", "tiger", "red", "green")


@pytest.fixture(scope="module")
def ranker() -> SemanticRanker:
    config = parse_config({"tower": {"name": "dssm", "widths": [24]}})
    vocabulary = Vocabulary(
        sorted({ngram for word in WORDS for ngram in letter_ngrams(word)}), FOLDED
    )
    prior = TitlePrior([Title("red fox", 8), Title("green owl", 1)], FOLDED)
    return SemanticRanker(
        "dssm", config, build_model(config, vocabulary.size), vocabulary, prior, 0.1
    )


def test_titles_with_equal_words_have_equal_scores(ranker):
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, 3)) for _ in range(200)]
    all_titles = [*titles, *(f"{title.upper()}!" for title in titles)]
    scores = ranker.score_matrix(list(WORDS), all_titles)
    assert (scores[:, :200] == scores[:, 200:]).all()


def test_the_score_is_the_cosine_plus_the_weighted_prior_and_only_the_prior_without_words(ranker):
    titles = ["red fox", "green owl", "never seen"]
    # The titles have 8 and 1 clicks. Each has one more, and unknown titles together have one.
    weighted_prior = 0.1 * np.log([9 / 12, 2 / 12, 1 / 12])
    cosines = ranker.encode_queries(["fox"]) @ ranker.encode_titles(titles).T
    assert ranker.score("fox", titles) == pytest.approx(cosines[0] + weighted_prior, abs=TOLERANCE)
    assert ranker.score("?!", titles) == pytest.approx(weighted_prior, abs=TOLERANCE)


def test_repeated_texts_of_several_batches_get_the_vectors_of_their_text():
    texts = ["dog food", "a", "cat", "a", "dog food", "bird", "cat", "a"]
    batches = []

    def encode(raw: tf.Tensor) -> tf.Tensor:
        batches.append(raw.numpy().tolist())
        return tf.constant([[len(text), text[0]] for text in batches[-1]], tf.float32)

    vectors = encode_distinct(encode, texts, 2, batch_size=2)
    assert vectors.tolist() == [[len(text), ord(text[0])] for text in texts]
    assert batches == [[b"a", b"cat"], [b"bird", b"dog food"]]  # each text once, by length
    assert encode_distinct(encode, [], 2).shape == (0, 2)
