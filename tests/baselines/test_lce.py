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
    ranking = model.mu, model.weights, model.window
    scores = sorted(reference.mrf(query, title, corpus, *ranking) for title in corpus)[::-1]
    # Titles whose scores differ only in the last bit may be swapped.
    assume(len(corpus) <= feedback or scores[feedback - 1] - scores[feedback] > 1e-9)
    added = concepts(model, " ".join(query))
    expected = reference.concepts(query, corpus, *ranking, *settings)
    # Concepts of equal weight may be swapped, too; the weights stay the same.
    assert sorted(added.values()) == pytest.approx(sorted(expected.values()), rel=1e-6)
    assert sum(added.values()) == pytest.approx(1)


def test_a_score_is_the_mixture_of_the_query_and_its_concepts():
    model = LCE(feedback_weight=0.3, concepts=3, feedback_titles=2).fit([], TITLES)
    corpus = [title.split() for title in TITLES]
    words = [word for title in corpus for word in title]
    added = concepts(model, "halo xbox")
    for title, score in zip(corpus, model.score("halo xbox", TITLES), strict=True):
        original = reference.mrf(["halo", "xbox"], title, corpus, 10.0, model.weights, 8)
        expansion = sum(
            weight
            * reference.feature(title.count(word), words.count(word), len(title), len(words), 10.0)
            for word, weight in added.items()
        )
        assert score == pytest.approx(0.7 * original + 0.3 * 2 * expansion)


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
