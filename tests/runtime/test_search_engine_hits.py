"""The cosine of text vectors that the client adds to an engine's hits, and the parts of scores."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.search_engine_client import PIN_STEP, RESCORED, SearchEngineClient
from dssm_tf.text.rules import FOLDED
from tests.runtime.maxsim_models import QUERIES, oracle, random_model
from tests.runtime.search_engine_exports import TITLES, engine_hits, write_export

RULES = "pin\tred shoe\tt8\npin\tred shoe\tt3\n"
"""They pin a title without words, t8, and "walla walla onion"."""


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> SearchEngineClient:
    return SearchEngineClient(write_export(tmp_path_factory.mktemp("export") / "1", rules=RULES))


@pytest.fixture(scope="module")
def formula(client):
    """The float64 oracle."""
    return oracle(random_model(TITLES), map(client.vocabulary.words, [*TITLES, *QUERIES]))


def title_of(hit: dict) -> str:
    return TITLES[int(hit["_id"][1:])]


def scores(hits: list[dict]) -> list[float]:
    return [hit["_score"] for hit in hits]


# ------------------------------------------------------------------------------------- rescored


@pytest.mark.parametrize("query", QUERIES)
def test_rescored_hits_have_the_scores_of_the_model_best_first(client, formula, query):
    pins = {"t8": 2 * PIN_STEP, "t3": PIN_STEP} if query == "red shoe" else {}
    hits = engine_hits(client, query)
    rescored = client.rescored(query, hits)
    assert sorted(hit["_id"] for hit in rescored) == sorted(hit["_id"] for hit in hits)
    assert scores(rescored) == sorted(scores(rescored), reverse=True)
    for hit in rescored:
        query_words, title_words = map(client.vocabulary.words, (query, title_of(hit)))
        prior = client.ranker.weighted_prior([title_of(hit)])[0] - client.manifest.prior_offset
        expected = formula.score(query_words, title_words) + prior + pins.get(hit["_id"], 0.0)
        assert hit["_score"] == approx(expected, abs=1e-5)
        assert hit["text_cosine"] == approx(formula.cosine_part(query_words, title_words), abs=1e-6)


def test_the_cosine_changes_the_order_of_hits(client):
    hits = engine_hits(client, "blue ribbon box")
    rescored = client.rescored("blue ribbon box", hits)
    assert [hit["_id"] for hit in rescored] != [hit["_id"] for hit in hits]


def test_the_hits_of_the_engine_are_not_changed(client):
    hits = engine_hits(client, "red shoe")
    copies = deepcopy(hits)
    client.rescored("red shoe", hits)
    assert hits == copies


def test_pinned_titles_stay_on_top_in_their_order(client):
    rescored = client.rescored("red shoe", engine_hits(client, "red shoe"))
    assert [hit["_id"] for hit in rescored[:2]] == ["t8", "t3"]
    assert rescored[0]["text_cosine"] == 0.0  # the title has no words


def test_hits_with_equal_scores_keep_the_order_of_the_engine(client):
    titles = ["blue box", "shoe box", "box shoe", "red", "blue box", "shoe box", "blue box"]
    hits = engine_hits(client, "blue", titles, prior=False)
    assert scores(hits[:3]) == [hits[0]["_score"]] * 3
    rescored = client.rescored("blue", hits)
    ids = [hit["_id"] for hit in rescored if titles[int(hit["_id"][1:])] == "blue box"]
    assert ids == ["t0", "t4", "t6"]
    reverse = client.rescored("blue", hits[::-1])
    ids = [hit["_id"] for hit in reverse if titles[int(hit["_id"][1:])] == "blue box"]
    assert ids == ["t6", "t4", "t0"]


def test_the_cosine_is_added_once(client):
    once = client.rescored("shoe box", engine_hits(client, "shoe box"))
    assert client.rescored("shoe box", once) == once
    # Also if only some of the hits have it.
    engine = {hit["_id"]: hit for hit in engine_hits(client, "shoe box")}
    mixed = [engine[hit["_id"]] if row % 2 else hit for row, hit in enumerate(once)]
    both = client.rescored("shoe box", mixed)
    assert [hit["_id"] for hit in both] == [hit["_id"] for hit in once]
    assert scores(both) == approx(scores(once), abs=1e-6)


def test_there_may_be_no_hits_and_no_words(client):
    assert client.rescored("red", []) == []
    hit = engine_hits(client, "red")[0]
    assert client.rescored("...", [hit]) == [hit | {"text_cosine": 0.0}]


def test_a_model_without_text_vectors_returns_the_hits_as_they_are(client, tmp_path):
    model = random_model(TITLES, text_cosine=0.0)
    without = SearchEngineClient(write_export(tmp_path / "1", model))
    assert (without.text_cosine, client.text_cosine) == (0.0, 0.5)
    hits = engine_hits(without, "red shoe")
    for hit, rescored in zip(hits, without.rescored("red shoe", hits), strict=True):
        assert rescored is hit
    # The engine's score is that of a model without text vectors.
    with_vectors = {hit["_id"]: hit["_score"] for hit in engine_hits(client, "shoe box")}
    for hit in engine_hits(without, "shoe box"):
        assert hit["_score"] == approx(with_vectors[hit["_id"]], abs=1e-6)


def test_words_of_several_fields_are_told_apart(tmp_path):
    titles = ["red shoe␟box", "red box␟shoe", "shoe␟red box"]
    model = random_model(titles, replace(FOLDED, own_fields=2))
    client = SearchEngineClient(write_export(tmp_path / "1", model, titles))
    words = {text: client.vocabulary.words(text) for text in [*titles, "red box"]}
    formula = oracle(model, words.values())
    for hit in client.rescored("red box", engine_hits(client, "red box", titles)):
        title = words[titles[int(hit["_id"][1:])]]
        assert hit["text_cosine"] == approx(formula.cosine_part(words["red box"], title), abs=1e-6)


def test_as_many_hits_are_rescored_as_by_a_search_index():
    pytest.importorskip("numba")
    from dssm_tf.retrieval import maxsim_ranking

    assert RESCORED == maxsim_ranking.RESCORED


@pytest.mark.parametrize("method", ["rescored", "has_good_match"])
def test_hits_without_score_or_fields_are_an_error(client, method):
    words = {"dssm": {"words": ["red"]}}
    for hit, message in [
        ({"_id": "a", "_score": 1.0}, "hit 'a' has no dssm in _source; sort by score and return"),
        ({"_id": "a", "_score": 1.0, "_source": {"dssm": {}}}, "has no dssm.words in _source"),
        ({"_id": "a", "_score": None, "_source": words}, "hit 'a' has no _score; sort"),
        ({"_id": "a"}, "has no _score and no dssm in _source"),
    ]:
        with pytest.raises(UserError, match=message):
            getattr(client, method)("runing", [hit])
    with pytest.raises(UserError, match=r"has no dssm\.prior in _source"):
        client.parts("runing", {"_id": "a", "_score": 1.0, "_source": words})
    assert client.parts("runing", {"_score": 1.0, "_source": words}, prior=False) == {
        "words_and_pairs": 1.0,
        "text_cosine": 0.0,
        "prior": 0.0,
    }


# ------------------------------------------------------------------------ parts and good matches


@pytest.mark.parametrize("query", ["red shoe", "blue ribbon box"])
def test_parts_add_up_for_rescored_hits_and_for_those_of_the_engine(client, formula, query):
    engine = {hit["_id"]: client.parts(query, hit) for hit in engine_hits(client, query)}
    for hit in client.rescored(query, engine_hits(client, query)):
        parts = client.parts(query, hit)
        assert sum(parts.values()) == approx(hit["_score"], abs=1e-9)
        query_words, title_words = map(client.vocabulary.words, (query, title_of(hit)))
        cosine = formula.cosine_part(query_words, title_words)
        assert parts["text_cosine"] == approx(cosine, abs=1e-6)
        assert engine[hit["_id"]].pop("text_cosine") == 0.0
        del parts["text_cosine"]
        assert engine[hit["_id"]] == approx(parts, abs=1e-9)


def test_the_cutoff_of_a_good_match_is_for_the_score_with_the_cosine(client, monkeypatch):
    # No title has all words of the query, so only the cut-off decides.
    query = "blue ribbon box"
    hits = engine_hits(client, query)
    rescored = client.rescored(query, hits)
    parts = [client.parts(query, hit) for hit in rescored]
    highest = max(part["words_and_pairs"] + part["text_cosine"] for part in parts)
    assert abs(highest - max(part["words_and_pairs"] for part in parts)) > 0.01
    for cutoff, expected in ((highest - 1e-6, True), (highest + 1e-6, False)):
        monkeypatch.setattr(client.ranker, "cutoff", cutoff)
        assert client.has_good_match(query, rescored) == expected
        assert client.has_good_match(query, hits) == expected
