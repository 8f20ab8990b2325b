"""Trigram TF-IDF: one score by hand, and equality with a reference, also for misspelled words."""

import math

from pytest import approx

from dssm_tf.baselines.trigram_tfidf import TrigramTfIdf
from tests.reference.trigram_tfidf import cosines

TITLES = ["cat", "cat cart", "dogs", "Héctor's cats", "a dog"]


def test_a_score_equals_the_cosine_by_hand():
    # Trigrams of "cat": #ca cat at#; of "cart": #ca car art rt#. Both titles contain #ca; each of
    # the other trigrams is in one title.
    shared, unique = 1 + math.log(3 / 3), 1 + math.log(3 / 2)  # idf = 1 + ln((1 + n) / (1 + df))
    cat_norm = math.sqrt(shared**2 + 2 * unique**2)
    cart_norm = math.sqrt(shared**2 + 3 * unique**2)
    expected = shared**2 / (cat_norm * cart_norm)
    scores = TrigramTfIdf().fit([], ["cat", "cart"]).score("cat", ["cat", "cart"])
    assert scores == approx([1.0, expected])


def test_scores_equal_the_reference():
    queries = ["cta", "cats and dogs", "hector", "HÉCTOR dog dog", "xyz", ""]
    others = [*TITLES, "cat's cradle", "", "zzz"]
    scores = TrigramTfIdf().fit([], TITLES).score_matrix(queries, others)
    assert scores == approx(cosines(queries, others, TITLES), abs=1e-12)
