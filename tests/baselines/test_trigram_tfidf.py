"""Trigram TF-IDF: scores of scikit-learn, one score by hand, and a misspelled word."""

import math

from pytest import approx

from dssm_tf.baselines.trigram_tfidf import TrigramTfIdf
from tests.reference.trigram_tfidf import cosines

TITLES = ["cat", "cat cart", "dogs", "Héctor's cats", "a dog"]


def test_a_score_by_hand():
    # Trigrams of "cat": #ca cat at#; of "cart": #ca car art rt#. Both titles contain #ca, each of
    # the others is in one title:
    both, rare = 1 + math.log(3 / 3), 1 + math.log(3 / 2)
    expected = both**2 / (math.sqrt(both**2 + 2 * rare**2) * math.sqrt(both**2 + 3 * rare**2))
    scores = TrigramTfIdf().fit([], ["cat", "cart"]).score("cat", ["cat", "cart"])
    assert scores == approx([1.0, expected])


def test_scores_equal_the_reference():
    queries = ["cta", "cats and dogs", "hector", "HÉCTOR dog dog", "xyz", ""]
    others = [*TITLES, "cat's cradle", "", "zzz"]
    scores = TrigramTfIdf().fit([], TITLES).score_matrix(queries, others)
    assert scores == approx(cosines(queries, others, TITLES), abs=1e-12)
