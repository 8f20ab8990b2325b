"""LSA: scores equal those of scikit-learn and the formulas of both papers."""

import numpy as np
from pytest import approx
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from dssm_tf.baselines.lsa import LSA
from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.text.rules import FOLDED
from tests.reference import lsa as reference


def random_texts(count, vocabulary, seed=0):
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(vocabulary, 0.3))
    return [" ".join(map(str, random.choice(vocabulary, 6, p=probabilities))) for _ in range(count)]


def test_scores_on_a_large_corpus_equal_those_of_scikit_learn():
    titles = random_texts(400, 900)
    queries = [*random_texts(20, 40, seed=1), titles[3]]
    vectorizer = TfidfVectorizer(tokenizer=FOLDED.words, lowercase=False, token_pattern=None)
    matrix = vectorizer.fit_transform(titles)
    assert min(matrix.shape) > 200  # LSA decomposes smaller matrices exactly
    svd = TruncatedSVD(n_components=10, algorithm="arpack", random_state=0).fit(matrix)
    model = LSA(topics=10, power=0).fit([], titles)
    assert model.learned.singular_values == approx(svd.singular_values_, rel=1e-9)
    query_vectors = normalize(svd.transform(vectorizer.transform(queries)))
    expected = query_vectors @ normalize(svd.transform(matrix)).T
    assert model.score_matrix(queries, titles) == approx(expected, abs=1e-7)


def test_scores_equal_the_formulas_of_both_papers():
    titles, queries = random_texts(60, 40), random_texts(9, 40, seed=1)
    tfidf = TfIdf().fit([], titles)
    corpus, query_matrix = (tfidf.learned.vectors(texts).toarray().T for texts in (titles, queries))
    fitted = LSA(topics=10).fit([], titles)
    assert fitted.score_matrix(queries, titles) == approx(
        reference.shen(corpus, 10, query_matrix, corpus), abs=1e-9
    )
    unscaled = fitted.with_parameters(power=0, topics=7)
    assert unscaled.score_matrix(titles, titles) == approx(
        reference.deerwester(corpus, 7), abs=1e-9
    )


def test_the_number_of_topics_is_limited_by_the_corpus():
    model = LSA(topics=100).fit([], ["a b", "b a", "c"])
    assert len(model.learned.singular_values) == 2  # two of the three titles have the same words
    assert model.vectors(["c", "a b", "unseen"]).shape == (3, 2)
