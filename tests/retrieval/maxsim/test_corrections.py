"""Corrections of unknown query words: index, terminal, JSON, page, search API, search engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dssm_tf.commands.search import search, show
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.records import result_record
from dssm_tf.runtime import load
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.server.page import render
from dssm_tf.server.search_api import search as search_by_api
from dssm_tf.server.search_schema import SearchRequest
from dssm_tf.tables.judgments import CorpusTitle
from tests.retrieval.maxsim.conftest import corpus_of
from tests.runtime.maxsim_models import random_model, write_compact_model
from tests.runtime.search_engine_exports import write_export

pytest.importorskip("numba")

TITLES = ["wireless headphones", "toilet seat", "gt545 lawn mower", "kiwi ian", "headphones"]
MORE_TITLES = ["refrigerator"]  # in training only


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory) -> Path:
    # With many dimensions, the vectors of different letter n-grams are nearly orthogonal.
    model = random_model([*TITLES, *MORE_TITLES], dimension=400)
    return write_compact_model(model, tmp_path_factory.mktemp("model") / "1", {"toilet seat": -1.0})


@pytest.fixture(scope="module")
def index(model_directory) -> MaxSimIndex:
    return MaxSimIndex.build(load(model_directory), corpus_of(TITLES))


def corrected(index: MaxSimIndex, query: str) -> dict[str, str]:
    corrections = index.search(query).corrections
    return {correction.word: correction.correction for correction in corrections}


@pytest.mark.long
def test_an_unknown_word_is_corrected_to_its_most_similar_known_word(index):
    result = index.search("Wireless hedphones, white")
    (correction,) = result.corrections
    assert correction[:2] == ("hedphones", "headphones")
    assert result.corrected_query == "Wireless headphones white"


def test_words_that_are_known_are_never_corrected(index, model_directory, tmp_path):
    assert corrected(index, "headphone") == {}  # a singular
    assert corrected(index, "wireless kiwi gt540 gt545 ian") == {}
    # Known from training, although no title of the index has it.
    assert corrected(index, "refrigerator") == {}
    # Known from a rule by hand.
    assert corrected(index, "wirelesss") == {"wirelesss": "wireless"}
    (tmp_path / "rules.tsv").write_text("similar\twirelesss\tseat\t0.9\n", "utf-8")
    rules = read_rules(tmp_path / "rules.tsv", index.model.vocabulary)
    assert corrected(index.with_rules(rules), "wirelesss") == {}


def test_the_index_of_a_smaller_catalog_corrects_to_its_own_words_only(model_directory):
    index = MaxSimIndex.build(load(model_directory), [CorpusTitle("a", "toilet seat")])
    assert corrected(index, "hedphones toilett") == {"toilett": "toilet"}


def test_the_terminal_asks_whether_the_corrected_query_is_meant(index, capsys):
    show("hedphones", index.search("hedphones"), index.model.vocabulary.words)
    assert "Did you mean: headphones? (hedphones → headphones ." in capsys.readouterr().out
    show("headphones", index.search("headphones"), index.model.vocabulary.words)
    assert "Did you mean" not in capsys.readouterr().out


def test_json_has_the_corrections(index, model_directory, tmp_path, capsys):
    record = result_record("hedphones", index.search("hedphones"))
    assert record["corrected_query"] == "headphones"
    assert record["corrections"][0]["correction"] == "headphones"
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\na\theadphones\n", "utf-8")
    search("hedphones", model=model_directory, corpus=tmp_path / "corpus.tsv", format="json")
    assert json.loads(capsys.readouterr().out)["corrected_query"] == "headphones"


def test_the_page_links_to_the_corrected_query(index):
    assert 'Did you mean <a href="/?q=red+headphones">red headphones</a>?' in render(
        index, "red hedphones"
    )
    assert "Did you mean <a" not in render(index, "headphones")


@pytest.mark.parametrize("ranking", ["semantic", "bm25"])
def test_the_search_api_has_the_corrections_of_both_rankings(index, ranking):
    answer = search_by_api(index, 1, SearchRequest(query="red hedphones", ranking=ranking))
    assert answer.corrected_query == "red headphones"
    (word,) = answer.corrections
    assert (word.word, word.correction) == ("hedphones", "headphones")
    answer = search_by_api(index, 1, SearchRequest(query="headphones", ranking=ranking))
    assert (answer.corrected_query, answer.corrections) == ("", [])


def test_the_client_of_a_search_engine_has_the_same_corrections(index, tmp_path):
    model = random_model([*TITLES, *MORE_TITLES], dimension=400)
    client = SearchEngineClient(write_export(tmp_path / "export", model, TITLES, similar_words=16))
    for query in ("red hedphones", "headphones", "gt540 refrigerator", "wirelesss toliet"):
        received = client.corrections(query)
        expected = index.search(query).corrections
        assert [correction[:2] for correction in received] == [
            correction[:2] for correction in expected
        ]
