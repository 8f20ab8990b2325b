"""Rules by hand in a search engine: expansions, and pinned and blocked documents."""

from __future__ import annotations

import json

import pytest
from pytest import approx

from dssm_tf.common.checksums import files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.export.search_engine.evaluation import engine_score
from dssm_tf.export.search_engine.verify import verify_search_engine
from dssm_tf.runtime import load
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from tests.reference import engine_query
from tests.reference.engine_client import Client
from tests.runtime.search_engine_exports import TITLES, write_export

RULES = """\
similar\tsandal\tshoe\t0.9
similar\tzzyzx\tqqqq\t0.5
never\tred\tshoe
pin\tred shoe\tSHOE  box!
pin\tred shoe\tnew-id
block\tred shoe\tt0
block\tsandal\twalla walla onion
"""
"""t0 is "red running shoe", t3 "walla walla onion", t5 "shoe box"."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_export(tmp_path_factory.mktemp("export") / "1", rules=RULES)


@pytest.fixture(scope="module")
def client(directory):
    return SearchEngineClient(directory)


def ranked(client, query, evaluate=engine_query.score):
    """The ids of the matching titles, best first, and the score of each, by the engine."""
    writer, dsl = DocumentWriter(client, ("title",)), client.query(query, max_terms=10_000)
    titles = {f"t{row}": title for row, title in enumerate(TITLES)} | {"new-id": "another hat"}
    scores = {
        name: evaluate(dsl, {"_id": name, "dssm": writer.fields(title)})
        for name, title in titles.items()
    }
    found = {name: score for name, score in scores.items() if score is not None}
    return sorted(found, key=found.__getitem__, reverse=True), found


def test_the_table_has_the_words_of_rules(client):
    assert client.word("sandal").similar["shoe"] == approx(0.9)
    assert client.word("shoe").similar["sandal"] == approx(0.9)
    assert "shoe" not in client.word("red").similar
    assert "red" not in client.word("shoe").similar
    assert client.word("zzyzx").similar["qqqq"] == approx(0.5)  # no title has these words yet


@pytest.mark.parametrize("evaluate", [engine_score, engine_query.score])
def test_scores_equal_those_of_the_model_with_the_rules(directory, client, evaluate):
    model = load(directory / "model")
    writer = DocumentWriter(client, ("title",))
    for query in ["sandal", "red box", "shoe box lid", "zzyzx"]:
        _, scores = ranked(client, query, evaluate)
        for name, score in scores.items():
            title = TITLES[int(name[1:])] if name != "new-id" else "another hat"
            hit = {"_id": name, "_score": score, "_source": {"dssm": writer.fields(title)}}
            (rescored,) = client.rescored(query, [hit])
            expected = model.score(query, [title])[0] - client.manifest.prior_offset
            assert rescored["_score"] == approx(expected, abs=1e-5)
            # Rules change the words that match, not the text vectors.
            words = model.word_matches(query, title)
            cosine = sum(part.contribution for part in words.text_cosine)
            assert score == approx(expected - cosine, abs=1e-5)


@pytest.mark.parametrize("evaluate", [engine_score, engine_query.score])
def test_pinned_documents_come_first_and_blocked_ones_are_left_out(client, evaluate):
    names, scores = ranked(client, "Red, shoe", evaluate)
    assert names[:2] == ["t5", "new-id"]
    assert "t0" not in names
    assert scores["t5"] > 2000 > scores["new-id"] >= 1000 > scores[names[2]]
    assert "t3" not in ranked(client, "sandal", evaluate)[0]
    assert "t0" in ranked(client, "red shoes", evaluate)[0]


def test_pinned_documents_are_named_and_counted(client):
    dsl = client.query("red shoe", max_terms=9)
    names = [clause["constant_score"]["_name"] for clause in dsl["bool"]["should"][1:]]
    assert names == ["pinned 1", "pinned 2"]
    assert engine_query.terms(dsl) <= 9 - 3  # two pinned documents, and the blocked ones


def test_a_verified_export_has_rules(directory):
    verify_search_engine(directory, load(directory / "model"))


def test_the_version_does_not_depend_on_rules(client, tmp_path):
    other = SearchEngineClient(write_export(tmp_path / "1"))
    assert other.manifest.version == client.manifest.version
    assert other.title_rules == {}


def test_a_client_in_another_language_writes_the_same_queries(directory):
    other = Client(directory)
    vectors = json.loads((directory / "test_vectors.json").read_bytes())["queries"]
    assert sum(vector["name"] == "a pinned or blocked title" for vector in vectors) == 2
    for vector in vectors:
        dsl = other.query(vector["query"], vector["prior"], vector["max_terms"])
        assert shape(dsl) == shape(vector["dsl"])


def test_damaged_title_rules_are_an_error(tmp_path):
    directory = write_export(tmp_path / "1", rules=RULES)
    (directory / "title_rules.json").write_text('{"red": []}', "utf-8")
    with pytest.raises(UserError, match=r"title_rules\.json is damaged or was changed"):
        SearchEngineClient(directory)
    write_checksums(directory, [name for name in files_in(directory) if name != "SHA256SUMS"])
    with pytest.raises(UserError, match=r"title_rules\.json is not as expected"):
        SearchEngineClient(directory)


def shape(query):
    """A query with rounded boosts: those of words that are expanded by letters differ in digits."""
    if isinstance(query, dict):
        return {key: shape(value) for key, value in query.items()}
    if isinstance(query, list):
        return [shape(value) for value in query]
    return float(f"{query:.4g}") if isinstance(query, float) else query
