"""Latent concept expansion: concepts and scores equal their definitions."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dssm_tf.baselines.lce import LCE
from tests.baselines.cases import CORPUS, QUERIES, TEXT, joined
from tests.reference import term_dependence as reference

TITLES = ["halo reach xbox", "halo xbox", "halo wars", "mario kart wii", "zelda wii", "tie"]


def concepts(model, query):
    """The concepts that a model adds to a query, with their probabilities."""
    row = model._concepts([query])
    return {model._terms.words[i]: p for i, p in zip(row.indices, row.data, strict=True)}


@given(CORPUS, TEXT, st.sampled_from([(1, 1, 0.0), (2, 3, 0.0), (4, 2, 0.5), (30, 30, 1.0)]))
def test_concepts_equal_the_definition(corpus, query, settings):
    feedback, count, icf_weight = settings
    known = {word for title in corpus for word in title}
    query = [word for word in query if word in known] or [corpus[0][0]]
    model = LCE(feedback_titles=feedback, concepts=count, icf_weight=icf_weight).fit(
        [], joined(corpus)
    )
    mrf_parameters = model.mu, model.weights, model.window
    scores = sorted(reference.mrf(query, title, corpus, *mrf_parameters) for title in corpus)[::-1]
    # Titles whose scores differ only in the last bit may be swapped.
    assume(len(corpus) <= feedback or scores[feedback - 1] - scores[feedback] > 1e-9)
    added = concepts(model, " ".join(query))
    expected = reference.concepts(query, corpus, *mrf_parameters, *settings)
    # Concepts of equal weight may be swapped, too; the weights stay the same.
    assert sorted(added.values()) == pytest.approx(sorted(expected.values()), rel=1e-6)
    assert sum(added.values()) == pytest.approx(1)


def test_a_score_is_the_mixture_of_the_query_and_its_concepts():
    feedback_weight, mu, window = 0.3, 10.0, 8
    model = LCE(
        feedback_weight=feedback_weight, mu=mu, window=window, concepts=3, feedback_titles=2
    ).fit([], TITLES)
    query_words = ["halo", "xbox"]
    corpus = [title.split() for title in TITLES]
    words = [word for title in corpus for word in title]
    query = " ".join(query_words)
    added = concepts(model, query)
    for title, score in zip(corpus, model.score(query, TITLES), strict=True):
        original = reference.mrf(query_words, title, corpus, mu, model.weights, window)
        expansion = sum(
            weight
            * reference.feature(title.count(word), words.count(word), len(title), len(words), mu)
            for word, weight in added.items()
        )
        # The expansion is weighted as if the query's words had all been expanded.
        assert score == pytest.approx(
            (1 - feedback_weight) * original + feedback_weight * len(query_words) * expansion
        )


def test_queries_in_several_blocks_have_the_same_scores(monkeypatch):
    model = LCE().fit([], TITLES)
    expected = model.score_matrix(QUERIES, TITLES[:3])
    monkeypatch.setattr("dssm_tf.baselines.lce._CELLS", 2 * len(TITLES))
    assert (model.score_matrix(QUERIES, TITLES[:3]) == expected).all()


def test_ties_for_the_last_feedback_title_go_to_the_earliest_title():
    model = LCE(feedback_titles=2).fit([], ["halo a", "halo b", "halo c", "x y"])
    added = concepts(model, "halo")
    assert set(added) == {"halo", "a", "b"}
    assert added["a"] == pytest.approx(added["b"])
