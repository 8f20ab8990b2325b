"""A real node gives the scores of the model, alone and with filters, rescoring and facets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.search_engine_client import MAX_TERMS, RESCORED
from tests.search_engines.conftest import INDEX
from tests.search_engines.nodes import NodeError

FIRST = 10


def hits_of(node, **body) -> dict[int, float]:
    """The scores of the first documents by their numbers, best first."""
    response = node.ask("POST", f"/{INDEX}/_search", {"size": FIRST, "_source": False, **body})
    return {int(hit["_id"]): hit["_score"] for hit in response["hits"]["hits"]}


def assert_first_are_expected(hits: dict[int, float], expected: np.ndarray) -> None:
    """Asserts that hits have the highest scores; titles of equal scores may be in any order.

    Args:
        hits: scores by number of the document.
        expected: the scores of all documents; those that do not match have 0.
    """
    highest = np.sort(expected)[::-1][:FIRST]
    highest = highest[highest > 0]
    np.testing.assert_allclose([*hits.values()], highest, rtol=1e-5)
    np.testing.assert_allclose([*hits.values()], expected[[*hits]], rtol=1e-5)


def test_first_ten_scores_equal_the_models(node, shop):
    for query in shop.queries:
        hits = hits_of(node, query=shop.client.query(query, prior=False))
        assert_first_are_expected(hits, shop.expected.of_query(query))


def test_scores_with_the_prior_equal_the_models(node, shop):
    priors = shop.client.ranker.weighted_prior(shop.titles) - shop.client.manifest.prior_offset
    assert priors.max() > 0.01
    for query in shop.queries:
        scores = shop.expected.of_query(query)
        hits = hits_of(node, query=shop.client.query(query))
        assert_first_are_expected(hits, np.where(scores > 0, scores + priors, 0))


def test_rescored_hits_have_the_scores_of_the_model_best_first(node, shop):
    client, text_vectors = shop.client, shop.client.ranker.maxsim.text_vectors
    for query in shop.queries[:50]:
        body = {"query": client.query(query, prior=False), "size": RESCORED}
        hits = node.ask("POST", f"/{INDEX}/_search", body)["hits"]["hits"]
        rescored = client.rescored(query, hits)
        assert {hit["_id"] for hit in rescored} == {hit["_id"] for hit in hits}
        numbers = [int(hit["_id"]) for hit in rescored]
        words = client.words(query)
        cosine_parts = [
            text_vectors.word_parts(words, client.words(shop.titles[number])).sum()
            for number in numbers
        ]
        scores = [hit["_score"] for hit in rescored]
        expected = shop.expected.of_query(query)[numbers] + cosine_parts
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
        assert scores == sorted(scores, reverse=True)


def test_a_filter_leaves_the_scores_unchanged(node, shop):
    is_red = np.array(shop.colors) == "red"
    for query in shop.queries[:100]:
        filtered = {"must": [shop.client.query(query, prior=False)]}
        filtered["filter"] = [{"term": {"color": "red"}}]
        hits = hits_of(node, query={"bool": filtered})
        assert_first_are_expected(hits, np.where(is_red, shop.expected.of_query(query), 0))


def test_facets_count_the_matching_documents(node, shop):
    query = shop.queries[0]
    matching = shop.expected.of_query(query) > 0
    body = {
        "query": shop.client.query(query),
        "size": 0,
        "aggs": {"colors": {"terms": {"field": "color"}}},
    }
    buckets = node.ask("POST", f"/{INDEX}/_search", body)["aggregations"]["colors"]["buckets"]
    counts = {bucket["key"]: bucket["doc_count"] for bucket in buckets}
    colors = np.array(shop.colors)
    assert counts == {c: (matching & (colors == c)).sum() for c in ("red", "green", "blue")}


def test_rescoring_orders_the_first_of_another_query_by_the_model(node, shop):
    for query in shop.queries[:100]:
        own = {"match": {"title": query}}
        window = hits_of(node, query=own, size=50)
        rescore = {
            "rescore_query": shop.client.query(query, prior=False),
            "query_weight": 0,
            "rescore_query_weight": 1,
        }
        hits = hits_of(node, query=own, rescore={"window_size": 50, "query": rescore})
        in_window = np.isin(np.arange(len(shop.titles)), [*window])
        assert_first_are_expected(hits, np.where(in_window, shop.expected.of_query(query), 0))


def test_a_query_of_very_many_words_is_below_the_clause_limit(node, shop):
    words = shop.client.catalog[:: len(shop.client.catalog) // 60]
    assert len(words) >= 60
    unlimited = shop.client.query(" ".join(words), max_terms=10_000)
    if node.engine == "opensearch":
        with pytest.raises(NodeError, match=r"(?i)clause"):
            hits_of(node, query=unlimited)
    query = shop.client.query(" ".join(words), prior=False)
    assert json.dumps(query).count('"term"') > MAX_TERMS - 100
    assert len(hits_of(node, query=query)) == FIRST


def test_an_empty_query_matches_nothing(node, shop):
    assert hits_of(node, query=shop.client.query(" ?! ")) == {}


def test_a_document_that_was_added_later_is_found_by_its_new_word(node, shop):
    writer_fields = {"words": ["spiderqueens"], "norm": 1.0, "prior": 0.0}
    body = {
        "title": "spiderqueens",
        "dssm": writer_fields | {"version": shop.client.manifest.version},
    }
    node.ask("PUT", f"/{INDEX}/_doc/99999?refresh=true", body)
    try:
        hits = hits_of(node, query=shop.client.query("spiderqueens", prior=False))
        # The word is in no title of the model: both sides are 1.
        title_side = shop.client.title_weight("spiderqueens")
        manifest = shop.client.manifest
        assert hits[99999] == pytest.approx(
            manifest.query_side + manifest.title_side * title_side, rel=1e-5
        )
        assert next(iter(hits)) == 99999
    finally:
        node.ask("DELETE", f"/{INDEX}/_doc/99999?refresh=true")


def test_the_index_has_the_version_of_the_table(node, shop):
    count = node.ask("POST", f"/{INDEX}/_count", shop.client.other_versions)["count"]
    shop.client.check_index(node.ask("GET", f"/{INDEX}/_mapping"), count)


def test_documents_of_another_version_are_counted(node, shop):
    node.ask("PUT", f"/{INDEX}/_doc/old?refresh=true", {"dssm": {"version": "0123456789abcdef"}})
    try:
        count = node.ask("POST", f"/{INDEX}/_count", shop.client.other_versions)["count"]
        with pytest.raises(UserError, match="1 documents have fields of another version"):
            shop.client.check_index(node.ask("GET", f"/{INDEX}/_mapping"), count)
    finally:
        node.ask("DELETE", f"/{INDEX}/_doc/old?refresh=true")


def test_unknown_fields_of_the_model_are_refused(node):
    with pytest.raises(NodeError, match="strict"):
        node.ask("PUT", f"/{INDEX}/_doc/other", {"dssm": {"vector": [1, 2]}})


def test_the_synonyms_are_those_of_a_synonym_filter(node, shop):
    if node.engine == "elasticsearch8":
        pytest.skip("its Maven artifacts have no synonym filter")
    rules = (shop.export / "synonyms.txt").read_text("utf-8").splitlines()
    word, _, synonyms = next(rule for rule in rules if ", " in rule).partition(" => ")
    (node.home / "config" / "synonyms.txt").write_text("\n".join(rules), "utf-8")
    synonym_filter = {"type": "synonym_graph", "synonyms_path": "synonyms.txt"}
    analyzer = {"tokenizer": "standard", "filter": ["lowercase", "synonyms"]}
    analysis = {"filter": {"synonyms": synonym_filter}, "analyzer": {"expanded": analyzer}}
    node.ask("PUT", "/synonyms", {"settings": {"analysis": analysis}})
    body = {"analyzer": "expanded", "text": word.upper()}
    tokens = node.ask("POST", "/synonyms/_analyze", body)["tokens"]
    assert sorted(token["token"] for token in tokens) == sorted(synonyms.split(", "))
