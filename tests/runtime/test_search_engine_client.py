"""Queries for search engines: their scores are those of the formula."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from dssm_tf.runtime.search_engine_files import read_search_engine
from dssm_tf.text.rules import FOLDED
from tests.reference import engine_query
from tests.reference.engine_client import Client
from tests.runtime.maxsim_models import QUERIES, any_text, example_model, oracle, random_model
from tests.runtime.search_engine_exports import TITLES, write_export


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Path:
    return write_export(tmp_path_factory.mktemp("export") / "1")


@pytest.fixture(scope="module")
def client(export) -> SearchEngineClient:
    return SearchEngineClient(export)


def document_of(client: SearchEngineClient, title: str) -> dict:
    return {"dssm": DocumentWriter(client, ("title",)).fields(title)}


def scores_of(
    client: SearchEngineClient, query: str, titles: list[str], **options
) -> list[float | None]:
    """The score that an engine gives each title; None if it does not match."""
    dsl = client.query(query, **options)
    return [engine_query.score(dsl, document_of(client, title)) for title in titles]


def assert_equal_to_the_formula(
    client: SearchEngineClient, model: MaxSim, queries: list[str], titles: list[str]
) -> None:
    """Asserts that scores lack the cosine of text vectors, and that `rescored` adds it."""
    words = {text: model.vocabulary.words(text) for text in (*queries, *titles)}
    formula = oracle(model, words.values())
    for query in queries:
        scores = [score or 0.0 for score in scores_of(client, query, titles, prior=False)]
        expected = [formula.score(words[query], words[title]) for title in titles]
        cosine_parts = [formula.cosine_part(words[query], words[title]) for title in titles]
        assert scores == approx(np.subtract(expected, cosine_parts), abs=1e-5)
        hits = [
            {"_id": row, "_score": score, "_source": document_of(client, title)}
            for row, (score, title) in enumerate(zip(scores, titles, strict=True))
        ]
        rescored = sorted(client.rescored(query, hits), key=lambda hit: hit["_id"])
        assert [hit["_score"] for hit in rescored] == approx(expected, abs=1e-5)


def clauses(query: dict) -> list[dict]:
    """The clauses of a query without its prior."""
    return query["bool"]["should"]


# -------------------------------------------------------------------------------------- scores


def test_scores_equal_the_formula(client):
    assert_equal_to_the_formula(client, random_model(TITLES), QUERIES, TITLES)


@settings(max_examples=40)
@given(
    corpus=st.lists(any_text, min_size=1, max_size=8),
    queries=st.lists(any_text, max_size=3),
    seed=st.integers(0, 99),
)
def test_scores_of_any_texts_equal_the_formula(tmp_path_factory, corpus, queries, seed):
    model = random_model(corpus, seed=seed)
    folder = tmp_path_factory.mktemp("any") / "1"
    client = SearchEngineClient(write_export(folder, model, corpus))
    assert_equal_to_the_formula(client, model, queries, corpus)


def test_the_worked_example_of_the_docs_has_its_score(tmp_path):
    client = SearchEngineClient(write_export(tmp_path / "1", example_model(), ["red shoe box lid"]))
    # docs/maxsim.md: 1 * 3.690 / 4.119 + 0.3 * 3.179 / 4.796
    (score,) = scores_of(client, "crimson shoe box", ["red shoe box lid"], prior=False)
    assert score == approx(1.095, abs=1e-3)


def test_the_prior_is_added_to_the_scores_of_matching_titles(client):
    without = scores_of(client, "red shoe", TITLES, prior=False)
    with_prior = scores_of(client, "red shoe", TITLES)
    priors = client.ranker.weighted_prior(TITLES) - client.manifest.prior_offset
    assert max(priors) > 1 > min(priors) >= 0
    expected = [
        None if score is None else approx(score + prior, abs=1e-5)
        for score, prior in zip(without, priors, strict=True)
    ]
    assert with_prior == expected


def test_only_the_most_similar_words_of_a_word_match(tmp_path):
    client = SearchEngineClient(write_export(tmp_path / "1", similar_words=2))
    for word in ("red", "runnin"):  # a known word, and an unknown one, which has itself too
        similar = client.word(word).similar
        assert len(similar) == (2 if word == "red" else 3)
        assert next(iter(similar.items())) == (word, 1.0)
        assert [*similar.values()] == sorted(similar.values(), reverse=True)
        assert len(clauses(client.query(word, prior=False))[0]["dis_max"]["queries"]) == len(
            similar
        )


def test_a_word_that_only_a_later_title_has_matches_itself(client):
    assert "onions" not in client.catalog
    (score,) = scores_of(client, "onions", ["onions"], prior=False)
    # Both sides are 1.
    assert score == approx(client.manifest.query_side + client.manifest.title_side, abs=1e-6)


# ------------------------------------------------------------------- what engines would refuse


@pytest.mark.parametrize("query", ["", "  ", "-!?", "\u0000"])
def test_a_query_without_words_matches_nothing(client, query):
    assert client.query(query) == {"match_none": {}}


def test_a_word_without_ids_has_no_dis_max_and_lowers_the_score_of_others(tmp_path):
    model = random_model(titles=["red shoe", "red box"])
    client = SearchEngineClient(write_export(tmp_path / "1", model, ["red shoe", "red box"]))
    assert not client.word("9").similar
    assert client.query("9") == {"match_none": {}}
    queries = [client.query(query, prior=False) for query in ("red", "red 9")]
    assert [len(clauses(query)) for query in queries] == [2, 2]  # with the title side
    without_others, with_others = (
        scores_of(client, text, ["red shoe"], prior=False)[0] for text in ("red", "red 9")
    )
    assert with_others < without_others


def test_repeated_words_are_one_clause(client):
    once, twice = (client.query(text, prior=False) for text in ("red box", "red box red"))
    assert len(clauses(once)) == len(clauses(twice)) == 3
    words = [
        clause["constant_score"]["filter"]["term"]["dssm.words"]
        for clause in clauses(twice)[-1]["function_score"]["query"]["bool"]["should"]
    ]
    assert len(words) == len({*words})


def test_terms_whose_score_is_zero_are_left_out(export):
    files = read_search_engine(export)
    manifest = replace(files.manifest, query_side=0.0)
    query = SearchEngineClient(files._replace(manifest=manifest)).query("red shoe", prior=False)
    (title_side,) = clauses(query)
    assert "function_score" in title_side
    manifest = replace(files.manifest, title_side=0.0)
    query = SearchEngineClient(files._replace(manifest=manifest)).query("red shoe", prior=False)
    assert [*map(list, clauses(query))] == [["dis_max"], ["dis_max"], ["constant_score"]]
    lines = {"red": "0\t0\tred 1"}
    client = SearchEngineClient(
        files._replace(lines=lines, manifest=replace(manifest, catalog_words=1))
    )
    assert client.query("red") == {"match_none": {}}


def test_a_filter_beside_the_clauses_does_not_match_everything(client):
    query = client.query("red", prior=False)
    query["bool"]["filter"] = [{"term": {"color": "blue"}}]
    document = {"color": "blue", "dssm": {"words": ["zz"], "norm": 1.0}}
    assert engine_query.score(query, document) is None


@settings(max_examples=40)
@given(query=any_text, most=st.integers(0, 60))
def test_no_query_has_more_terms_than_allowed(client, query, most):
    dsl = client.query(query, max_terms=most)
    assert engine_query.terms(dsl) <= most
    for title in TITLES:  # the evaluation refuses what engines refuse
        engine_query.score(dsl, document_of(client, title))


def test_the_least_similar_words_are_dropped_first(client):
    text = "red shoe box"
    full = {word: client.word(word).similar for word in text.split()}
    pairs = client.pairs_of(text)
    assert pairs == ["red shoe", "shoe box"]
    similarities = sorted((x for similar in full.values() for x in similar.values()), reverse=True)
    query = client.query(text, prior=False, max_terms=2 * (len(pairs) + 5))
    kept = [len(clause["dis_max"]["queries"]) for clause in clauses(query) if "dis_max" in clause]
    lowest = similarities[4]
    assert sum(kept) == 5
    assert kept == [sum(x >= lowest for x in similar.values()) for similar in full.values()]
    assert sum("constant_score" in clause for clause in clauses(query)) == len(pairs)


def test_of_equally_similar_words_the_last_are_dropped_first(client):
    text = "red shoe box lid"
    query = client.query(text, prior=False, max_terms=5)
    words = [
        clause["dis_max"]["queries"][0]["constant_score"]["filter"]["term"]["dssm.words"]
        for clause in clauses(query)
        if "dis_max" in clause
    ]
    assert words == ["red", "shoe"]


# ------------------------------------------------------------------------------------ versions


def test_an_index_of_the_same_version_is_accepted(client, export):
    body = json.loads((export / "settings_and_mapping.json").read_bytes())
    client.check_index(body)
    client.check_index({"shop-1": body, "shop-2": body})


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "there is no such index"),
        ({"shop": {"mappings": {}}}, "shop has the fields of version none, the table"),
        (
            {"shop": {"mappings": {"_meta": {"dssm": {"version": "0123"}}}}},
            "shop has the fields of version 0123, the table of expansions is of version",
        ),
    ],
)
def test_an_index_of_another_version_is_refused(client, mapping, message):
    with pytest.raises(UserError, match=message):
        client.check_index(mapping)


def test_documents_of_another_version_are_refused(client, export):
    body = json.loads((export / "settings_and_mapping.json").read_bytes())
    with pytest.raises(UserError, match="1,200 documents have fields of another version"):
        client.check_index(body, 1200)


def test_the_version_changes_with_the_model_and_not_with_the_catalog(tmp_path):
    versions = [
        read_search_engine(write_export(tmp_path / str(number), model, titles)).manifest.version
        for number, (model, titles) in enumerate(
            [
                (random_model(TITLES), TITLES),
                (random_model(TITLES), TITLES[:3]),
                (random_model(TITLES, seed=1), TITLES),
            ]
        )
    ]
    assert versions[0] == versions[1] != versions[2]


# --------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("manifest.json", "{}", "does not match its checksum"),
        ("expansions.tsv.gz", "", "does not match its checksum"),
        ("pairs.tsv.gz", None, "does not exist"),
        ("model/weights.npz", "x", "does not match its checksum"),
        ("model/compact.json", None, "does not exist"),
        ("SHA256SUMS", None, "does not exist"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, file, content, message):
    export = write_export(tmp_path / "1")
    if content is None:
        (export / file).unlink()
    else:
        (export / file).write_text(content, "utf-8")
    with pytest.raises(UserError, match=message) as error:
        SearchEngineClient(export)
    assert file.split("/")[0] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "manifest.json",
            '"query_side": ',
            '"query_side": 1' + 400 * "0" + ', "x": ',
            "query_side is 10+",
        ),
        (
            "manifest.json",
            '"version": "',
            '"version": "' + 5000 * "x",
            r"manifest.json 'xxx\S+\. C",
        ),
        ("manifest.json", "{", "[" * 100_000, "is not JSON"),
        ("expansions.tsv.gz", "\t", "\tnan", r"gz:2 is '\w+\\tnan"),
        ("expansions.tsv.gz", " 1 ", " 2 ", r"gz:\d+ is '"),
        ("expansions.tsv.gz", "\t", "\t9999999999999", r"gz:\d+ is '"),
        ("expansions.tsv.gz", "\n", "\n" + 400_000 * " ", "becomes too large"),
        ("pairs.tsv.gz", "\t", "\t-", "gz:2 is"),
        ("pairs.tsv.gz", "red shoe", "red shoes", "has other pairs than"),
        ("title_rules.json", "{}", '{"red": {"pinned": "t1", "blocked": []}}', "not as expected"),
        ("title_rules.json", "{", "[" * 100_000, "is not JSON"),
    ],
)
def test_impossible_values_with_fitting_checksums_are_refused(tmp_path, file, old, new, message):
    export = write_export(tmp_path / "1")
    raw = (export / file).read_bytes()
    if file.endswith(".gz"):
        header, text = gzip.decompress(raw).decode().split("\n", 1)
        content = gzip.compress(f"{header}\n{text.replace(old, new, 1)}".encode())
    else:
        content = raw.decode().replace(old, new, 1).encode()
    (export / file).write_bytes(content)
    (export / CHECKSUMS).unlink()
    write_checksums(export, files_in(export))
    with pytest.raises(UserError, match=message) as error:
        SearchEngineClient(export)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_a_model_of_another_version_is_refused(tmp_path):
    export = write_export(tmp_path / "1")
    other = write_export(tmp_path / "2", random_model(TITLES, seed=1))
    for file in (export / "model").iterdir():
        file.write_bytes((other / "model" / file.name).read_bytes())
    with pytest.raises(UserError, match=r"has version '\w+', manifest.json '\w+'\. Copy"):
        SearchEngineClient(export)


def test_two_exports_of_a_model_have_equal_files(tmp_path):
    first, second = (write_export(tmp_path / name) for name in "ab")
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(names) > 12
    assert [str(n) for n in names if (first / n).read_bytes() != (second / n).read_bytes()] == []


# ------------------------------------------------------- a client in another language


@pytest.mark.parametrize(
    "rules",
    [
        replace(FOLDED, letter_ngrams=("pairs", "trigrams", "sorted_trigrams")),
        replace(FOLDED, keep_accents=True, max_words=3, max_letters=4),
    ],
)
def test_a_client_by_the_specification_has_the_test_vectors(tmp_path, rules):
    model = random_model([*TITLES, "ラーメン がっこう", "한국어 CAFÉ"], rules)
    export = write_export(tmp_path / "1", model, TITLES, similar_words=4)
    vectors = json.loads((export / "test_vectors.json").read_bytes())
    client = Client(export)
    assert vectors["version"] == client.manifest["version"]
    names = {query["name"] for query in vectors["queries"]}
    assert {"empty query", "a typing error", "a pair", "repeated words", "twenty terms"} <= names
    for query in vectors["queries"]:
        assert client.words(query["query"]) == query["words"], query["query"]
        assert client.pairs_of(query["query"]) == query["pairs"]
        dsl = client.query(query["query"], query["prior"], query["max_terms"])
        assert_equal_but_for_rounding(dsl, query["dsl"])
    for document in vectors["documents"]:
        assert document["dssm"].pop("prior") >= 0
        assert_equal_but_for_rounding(client.document(document["title"]), document["dssm"])
    words = {document["title"]: document["dssm"]["words"] for document in vectors["documents"]}
    parts = [vector["part"] for vector in vectors["text_cosines"]]
    assert len({*parts}) > len(words)
    assert parts == approx(
        [client.cosine_part(v["query"], words[v["title"]]) for v in vectors["text_cosines"]],
        abs=1e-5,
    )


def test_the_specification_defines_the_words_of_any_script(client, export):
    specified = Client(export)
    for text in (
        "Größe ŒUVRE Ångström İSTANBUL ΟΔΟΣ",
        "東京都2020 がっこう ﾊﾟﾝﾀﾞ か\u3099",
        "ที่นี่กินน้ำ abc",
        "\u1112\u1161\u11ab\u1100\u116e\u11a8 한국",
        "soft\u00adhyphen zero\u200bwidth a\u0301",
        "\ud800 lone \U0001f355 pizza",
    ):
        assert specified.all_words(text) == client.vocabulary.words(text), text


def assert_equal_but_for_rounding(value: object, expected: object) -> None:
    """Asserts that two JSON values are equal; numbers may differ by 1e-5 of their value."""
    if isinstance(expected, float) and isinstance(value, (int, float)):
        assert value == approx(expected, rel=1e-5)
    elif isinstance(expected, dict) and isinstance(value, dict):
        assert value.keys() == expected.keys()
        for key, item in expected.items():
            assert_equal_but_for_rounding(value[key], item)
    elif isinstance(expected, list) and isinstance(value, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            assert_equal_but_for_rounding(one, other)
    else:
        assert value == expected
