"""TF-IDF: one score by hand, and scores of scikit-learn."""

import math

import numpy as np
from pytest import approx
from sklearn.feature_extraction.text import TfidfVectorizer

from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.text.rules import FOLDED

TITLES = ["red shoe", "red red hat", "blue hat box"]


def test_a_score_by_hand():
    # 3 titles; 2 of them contain "red", 2 contain "hat", and 1 "shoe":
    common, rare = 1 + math.log(4 / 3), 1 + math.log(4 / 2)
    # "red shoe" against "red red hat": only "red" in common, twice in the title.
    expected = (common * 2 * common) / (math.hypot(common, rare) * math.hypot(2 * common, common))
    assert TfIdf().fit([], TITLES).score("red shoe", TITLES)[1] == approx(expected)


def test_scores_equal_those_of_scikit_learn():
    random = np.random.default_rng(0)
    lines = [" ".join(map(str, random.integers(0, 30, 5))) for _ in range(80)]
    titles, queries = lines[:50], lines[50:]
    library = TfidfVectorizer(tokenizer=FOLDED.words, lowercase=False, token_pattern=None).fit(
        titles
    )
    texts = [*titles, "3 4 unseen", ""]
    expected = (library.transform(queries) @ library.transform(texts).T).toarray()
    assert TfIdf().fit([], titles).score_matrix(queries, texts) == approx(expected, abs=1e-12)
