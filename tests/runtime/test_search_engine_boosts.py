"""Boosts in a search engine, the parts of a hit's score, and whether there is a good match."""

from __future__ import annotations

import json
from math import log1p

import pytest
from pytest import approx

from dssm_tf.runtime.search_engine_client import PIN_STEP, SearchEngineClient
from tests.runtime.search_engine_exports import TITLES, engine_hits, write_export

SALES = [0, 3, 99, None, 7.5, 1000, 0, 2, 50, 8, 400, 1]
RULES = "pin\tred shoe\tt3\npin\tred shoe\tt0\n"
BOOSTS = {"sales": 0.02, "shop.stock": 0.5}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_export(tmp_path_factory.mktemp("export") / "1", rules=RULES)


@pytest.fixture(scope="module")
def client(directory) -> SearchEngineClient:
    return SearchEngineClient(directory)


def hits_of(client: SearchEngineClient, query: str, **options) -> list[dict]:
    """The hits that an engine returns for documents with sales and stocks."""
    sources = [
        {"shop": {"stock": row}, **({} if sales is None else {"sales": sales})}
        for row, sales in enumerate(SALES)
    ]
    return engine_hits(client, query, TITLES, sources, **options)


@pytest.mark.parametrize("query", ["red shoe", "shoe box", "runing shoez"])
@pytest.mark.parametrize("prior", [True, False])
def test_parts_add_up_and_boosts_are_weights_times_the_log_of_one_plus_the_field(
    client, query, prior
):
    plain = {hit["_id"]: hit for hit in hits_of(client, query, prior=prior)}
    hits = hits_of(client, query, prior=prior, boosts=BOOSTS)
    assert {hit["_id"] for hit in hits} == {*plain}
    for hit in hits:
        row = int(hit["_id"][1:])
        parts = client.parts(query, hit, prior, BOOSTS)
        assert sum(parts.values()) == approx(hit["_score"])
        assert parts["boost_sales"] == approx(0.02 * log1p(SALES[row] or 0))
        assert parts["boost_shop.stock"] == approx(0.5 * log1p(row))
        without = client.parts(query, plain[hit["_id"]], prior)
        assert parts["words_and_pairs"] == approx(without["words_and_pairs"], abs=1e-9)
        pins = {"t3": 2 * PIN_STEP, "t0": PIN_STEP} if query == "red shoe" else {}
        assert parts.get("pinned", 0.0) == pins.get(hit["_id"], 0.0)


def test_a_query_without_words_has_no_boosts(client):
    assert client.query("...", boosts=BOOSTS) == {"match_none": {}}


def test_a_good_match_is_that_of_the_rule(client, directory):
    client.ranker.cutoff = 0.1
    assert client.has_good_match("runing", hits_of(client, "runing"))
    client.ranker.cutoff = 100.0
    hits = hits_of(client, "runing", boosts={"sales": 1000.0})
    assert not client.has_good_match("runing", hits, boosts={"sales": 1000.0})
    # A title has all words of the query.
    assert client.has_good_match("lid box", hits_of(client, "lid box"))
    # A title is pinned.
    assert client.has_good_match("red shoe", hits_of(client, "red shoe"))
    assert not client.has_good_match("runing", [])
    assert not client.has_good_match("...", [])


def test_the_cutoff_of_an_export_is_that_of_its_model(directory):
    content = json.loads((directory / "model" / "compact.json").read_text("utf-8"))
    assert SearchEngineClient(directory).ranker.cutoff == content["cutoff"]
